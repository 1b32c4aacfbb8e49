// Instructions as text and back.
#include "chimera/schedule/instr.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <sstream>
#include <string_view>

namespace chimera::schedule {
namespace {

struct OpName {
  Op op;
  const char* name;        // to_string(Op)
  const char* short_name;  // within an instruction
};
constexpr std::array<OpName, 21> kOps = {{
    {Op::LoadMicro, "LoadMicro", "LoadMicro"},
    {Op::Forward, "Forward", "F"},
    {Op::Recompute, "Recompute", "R"},
    {Op::Backward, "Backward", "B"},
    {Op::BackwardInput, "BackwardInput", "Bi"},
    {Op::BackwardWeight, "BackwardWeight", "Bw"},
    {Op::SendStart, "SendStart", "SendStart"},
    {Op::SendWait, "SendWait", "SendWait"},
    {Op::RecvStart, "RecvStart", "RecvStart"},
    {Op::RecvWait, "RecvWait", "RecvWait"},
    {Op::AllReduceStart, "AllReduceStart", "AllReduceStart"},
    {Op::AllReduceWait, "AllReduceWait", "AllReduceWait"},
    {Op::ReduceScatterStart, "ReduceScatterStart", "ReduceScatterStart"},
    {Op::ReduceScatterWait, "ReduceScatterWait", "ReduceScatterWait"},
    {Op::AllGatherStart, "AllGatherStart", "AllGatherStart"},
    {Op::AllGatherWait, "AllGatherWait", "AllGatherWait"},
    {Op::Verdict, "Verdict", "Verdict"},
    {Op::Update, "Update", "Update"},
    {Op::PushVersion, "PushVersion", "PushVersion"},
    {Op::Snapshot, "Snapshot", "Snapshot"},
    {Op::FreeSlot, "FreeSlot", "FreeSlot"},
}};

// A field of an instruction: a word that begins with `prefix` and ends with a number. A longer
// prefix stands before a shorter one that begins it.
struct Field {
  std::string_view prefix;
  int Instr::*member;
  int absent;  // not printed at this value
};
constexpr std::array<Field, 11> kFields = {{
    {"slot", &Instr::slot, -1},
    {"step", &Instr::step, 0},
    {"stream", &Instr::stream, 0},
    {"in", &Instr::input_slot, -1},
    {"p", &Instr::pipe, -1},
    {"s", &Instr::stage, -1},
    {"m", &Instr::micro, -1},
    {"x", &Instr::count, 1},
    {"v", &Instr::version, -1},
    {"w", &Instr::peer, -1},
    {"g", &Instr::group, -1},
}};

bool parse_number(std::string_view text, int& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_field(std::string_view word, Instr& in) {
  for (const Field& field : kFields)
    if (word.starts_with(field.prefix) &&
        parse_number(word.substr(field.prefix.size()), in.*field.member))
      return true;
  return false;
}

bool parse_waits(std::string_view word, Instr& in) {  // "waits3,17"
  constexpr std::string_view kPrefix = "waits";
  if (!word.starts_with(kPrefix)) return false;
  word.remove_prefix(kPrefix.size());
  while (true) {
    const std::size_t comma = word.find(',');
    if (!parse_number(word.substr(0, comma), in.waits.emplace_back())) return false;
    if (comma == word.npos) return true;
    word.remove_prefix(comma + 1);
  }
}

bool parse_op(std::string_view word, Instr& in) {
  for (const OpName& entry : kOps)
    if (word == entry.short_name) {
      in.op = entry.op;
      return true;
    }
  return false;
}

bool parse_message(std::string_view word, Instr& in) {
  for (const Message m : {Message::Activation, Message::Gradient})
    if (word == to_string(m)) {
      in.message = m;
      return true;
    }
  return false;
}

void append_field(std::string& out, const Field& field, const Instr& in) {
  if (in.*field.member == field.absent) return;
  out += ' ';
  out += field.prefix;
  out += std::to_string(in.*field.member);
}

}  // namespace

std::string to_string(Op op) {
  for (const OpName& entry : kOps)
    if (entry.op == op) return entry.name;
  return "Op(" + std::to_string(static_cast<int>(op)) + ")";
}

std::string to_string(Message message) {
  switch (message) {
    case Message::None: return "none";
    case Message::Activation: return "activation";
    case Message::Gradient: return "gradient";
  }
  return "Message(" + std::to_string(static_cast<int>(message)) + ")";
}

bool is_compute(Op op) {
  return op == Op::Forward || op == Op::Recompute || op == Op::Backward ||
         op == Op::BackwardInput || op == Op::BackwardWeight;
}

std::string to_string(const Instr& in) {
  char tick[16];
  std::snprintf(tick, sizeof tick, "t%02d ", in.tick);
  std::string out = tick;
  for (const OpName& entry : kOps)
    if (entry.op == in.op) out += entry.short_name;
  // As one reads it: where, which micro-batch, what of it, in which memory, with whom.
  constexpr std::array<std::size_t, 4> kBefore = {4, 5, 6, 7}, kAfter = {1, 8, 0, 3};
  for (const std::size_t i : kBefore) append_field(out, kFields[i], in);
  if (in.message != Message::None) out += " " + to_string(in.message);
  for (const std::size_t i : kAfter) append_field(out, kFields[i], in);
  append_field(out, kFields[9], in);
  append_field(out, kFields[10], in);
  append_field(out, kFields[2], in);
  for (std::size_t i = 0; i < in.waits.size(); ++i)
    out += (i == 0 ? " waits" : ",") + std::to_string(in.waits[i]);
  return out;
}

Instr parse_instr(const std::string& text) {
  std::istringstream words(text);
  Instr in;
  std::string word;
  ENSURE(words >> word && word[0] == 't' && parse_number(std::string_view(word).substr(1), in.tick),
         "instruction '", text, "' does not begin with a tick such as t07");
  word.clear();
  ENSURE(words >> word && parse_op(word, in), "instruction '", text, "': '", word,
         "' is not an operation; they are F, B, Bi, Bw, R, SendStart, …");
  while (words >> word)
    ENSURE(parse_message(word, in) || parse_waits(word, in) || parse_field(word, in),
           "instruction '", text, "': '", word,
           "' is not a field; they are p, s, m, x, slot, step, v, in, w, g, stream, "
           "waits with a number, activation and gradient");
  return in;
}

}  // namespace chimera::schedule
