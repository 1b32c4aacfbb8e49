// Instructions as text and back.
#include "chimera/schedule/instr.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <limits>
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
    {Op::GradNorm, "GradNorm", "GradNorm"},
    {Op::AllGatherStart, "AllGatherStart", "AllGatherStart"},
    {Op::AllGatherWait, "AllGatherWait", "AllGatherWait"},
    {Op::StepSyncStart, "StepSyncStart", "StepSyncStart"},
    {Op::StepSyncWait, "StepSyncWait", "StepSyncWait"},
    {Op::Update, "Update", "Update"},
    {Op::Release, "Release", "Release"},
}};

// A field of an instruction: a word that begins with `prefix` and ends with a number. A longer
// prefix stands before a shorter one that begins it.
struct Field {
  std::string_view prefix;
  int Instr::*member;
  int absent;  // not printed at this value
};
constexpr std::array<Field, 8> kFields = {{
    {"step", &Instr::step, 0},
    {"p", &Instr::pipe, -1},
    {"s", &Instr::stage, -1},
    {"m", &Instr::micro, -1},
    {"x", &Instr::count, 1},
    {"v", &Instr::version, 0},
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

bool finishes(Op op, bool forward_only) {
  return forward_only ? op == Op::Forward : op == Op::Backward || op == Op::BackwardWeight;
}

bool acquires_boundary(Op op) { return op == Op::LoadMicro || op == Op::RecvStart; }
bool releases_boundary(Op op) { return op == Op::Release; }
bool acquires_activations(Op op) { return op == Op::Forward || op == Op::Recompute; }
bool releases_activations(Op op, bool kept) {
  return finishes(op, /*forward_only=*/false) || (op == Op::Forward && !kept);
}

std::string to_string(const Instr& in) {
  char tick[16];
  std::snprintf(tick, sizeof tick, "t%02d ", in.tick);
  std::string out = tick;
  for (const OpName& entry : kOps)
    if (entry.op == in.op) out += entry.short_name;
  // As one reads it: where, which micro-batches, of which step and weights, what of it, with whom.
  for (std::size_t i = 1; i <= 4; ++i) append_field(out, kFields[i], in);
  append_field(out, kFields[0], in);
  append_field(out, kFields[5], in);
  if (in.message != Message::None) out += " " + to_string(in.message);
  append_field(out, kFields[6], in);
  append_field(out, kFields[7], in);
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
    ENSURE(parse_message(word, in) || parse_field(word, in), "instruction '", text, "': '", word,
           "' is not a field; they are p, s, m, x, step, v, w, g with a number, activation and "
           "gradient");
  return in;
}

int Schedule::lag() const {
  int least = 0;
  for (const Program& program : programs)
    for (const Instr& in : program.body) least = std::min(least, in.step);
  return -std::max(least, -std::numeric_limits<int>::max());  // a file may hold any number
}

int Schedule::span() const {
  int most = 1;
  for (const Program& program : programs)
    for (const Instr& in : program.body) most = std::max(most, in.count);
  return most;
}

bool Schedule::has(Op op) const {
  return std::ranges::any_of(programs, [&](const Program& program) {
    return std::ranges::any_of(program.body, [&](const Instr& in) { return in.op == op; });
  });
}

}  // namespace chimera::schedule
