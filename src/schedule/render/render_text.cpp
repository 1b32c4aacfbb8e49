// Grids like the paper's figures, and programs line by line.
#include <algorithm>
#include <cstdio>

#include "chimera/schedule/render.h"
#include "render_shared.h"

namespace chimera::schedule {
namespace {

std::string right(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

std::string left(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : text + std::string(width - text.size(), ' ');
}

std::string micro_label(const Instr& in) {
  std::string text = std::to_string(in.micro);
  if (in.count > 1) text += "-" + std::to_string(in.micro + in.count - 1);
  return text;
}

// "0 1 4 5", or "0 … 63 (32)" where they are many.
std::string micro_list(const Schedule& schedule, int pipe) {
  std::vector<int> micros;
  const int worker = schedule.placement[static_cast<std::size_t>(pipe)].front();
  for (const Instr& in : schedule.programs[static_cast<std::size_t>(worker)].body)
    if (in.op == Op::Forward && in.pipe == pipe && in.stage == 0)
      for (int m = in.micro; m < in.micro + in.count; ++m) micros.push_back(m);
  if (micros.empty()) return "nothing";
  if (micros.size() > 16)
    return concat(micros.size(), " micro-batches, ", micros.front(), " to ", micros.back());
  std::string out = micros.size() == 1 ? "micro-batch" : "micro-batches";
  for (const int m : micros) out += " " + std::to_string(m);
  return out;
}

std::string placement_text(const Schedule& schedule, int pipe) {
  std::string out;
  for (const int worker : schedule.placement[static_cast<std::size_t>(pipe)])
    out += (out.empty() ? "" : " ") + std::to_string(worker);
  return out;
}

}  // namespace

std::string pipe_name(int pipe, int pipeline_pairs) {
  if (pipeline_pairs == 0 || pipe < pipeline_pairs) return "down" + std::to_string(pipe);
  return "up" + std::to_string(pipe - pipeline_pairs);
}

std::string cell_label(const Instr& in) {
  switch (in.op) {
    case Op::Forward: return "F" + micro_label(in);
    case Op::Recompute: return "R" + micro_label(in);
    case Op::BackwardInput: return "I" + micro_label(in);
    case Op::BackwardWeight: return "W" + micro_label(in);
    default: return "B" + micro_label(in);
  }
}

std::string heading(const Schedule& s) {
  std::string out = concat(s.name, ": D = ", s.depth, ", N = ", s.micro_batches);
  if (s.pipeline_pairs > 0) out += concat(", f = ", s.pipeline_pairs);
  if (s.virtual_stages > 1) out += concat(", v = ", s.virtual_stages);
  if (s.width > 1) out += concat(", W = ", s.width);
  return out;
}

std::string bubble_text(const Timetable& table) {
  const auto [least, most] = std::ranges::minmax(table.idle);
  const std::string idle = least == most ? concat(most) : concat(least, " to ", most);
  return concat(table.steady_end > table.steady_start ? "a steady step takes " : "makespan ",
                table.step_length, ", idle ", idle, " per worker: bubble ratio ",
                percent(table.bubble_ratio()));
}

namespace {

// A line over the columns of one steady period.
std::string steady_mark(const Timetable& table, std::size_t width) {
  if (table.steady_end <= table.steady_start) return "";
  const auto columns = static_cast<std::size_t>(table.steady_end - table.steady_start);
  std::string mark(columns * width - 1, '-');
  const std::string name = " steady ";
  if (mark.size() >= name.size())
    mark.replace(mark.size() / 2 - name.size() / 2, name.size(), name);
  mark.front() = mark.back() = '|';
  return std::string(5 + static_cast<std::size_t>(table.steady_start) * width, ' ') + mark + "\n";
}

}  // namespace

std::string render_grid(const Timetable& table) {
  std::size_t width = std::max<std::size_t>(4, std::to_string(table.makespan).size() + 1);
  for (const auto& cells : table.workers)
    for (const Timetable::Cell& cell : cells)
      width = std::max(width, cell_label(cell.instr).size() + 1);
  std::string out = steady_mark(table, width) + "slot";
  for (int t = 0; t < table.makespan; ++t) out += right(std::to_string(t), width);
  out += "   idle\n";
  for (std::size_t w = 0; w < table.workers.size(); ++w) {
    std::vector<std::string> row(static_cast<std::size_t>(table.makespan), ".");
    for (const Timetable::Cell& cell : table.workers[w])
      for (int t = cell.start; t < cell.start + cell.length; ++t)
        row[static_cast<std::size_t>(t)] = cell_label(cell.instr);
    out += left("P" + std::to_string(w), 4);
    for (const std::string& cell : row) out += right(cell, width);
    out += right(concat(table.idle[w]), 7) + "\n";
  }
  return out;
}

std::string render_text(const Schedule& schedule, const std::vector<TitledTimetable>& tables) {
  std::string out = heading(schedule) + "\n";
  for (int p = 0; p < schedule.pipes(); ++p)
    out += concat(left(pipe_name(p, schedule.pipeline_pairs), 7), "stages on workers ",
                  placement_text(schedule, p), "; ", micro_list(schedule, p), "\n");
  for (const TitledTimetable& titled : tables)
    out += concat("\n", titled.title, ": ", bubble_text(titled.table), "\n",
                  render_grid(titled.table));
  return out;
}

std::string render_peaks(const VerifyReport& report) {
  std::string out;
  const auto line = [&](const char* name, int WorkerReport::*peak) {
    out += concat("\n", name, " per worker:");
    for (const WorkerReport& worker : report.workers) out += " " + std::to_string(worker.*peak);
  };
  line("most micro-batches in flight", &WorkerReport::in_flight);
  line("activation buffers", &WorkerReport::activation_buffers);
  line("boundary buffers", &WorkerReport::boundary_buffers);
  line("weight versions", &WorkerReport::versions);
  return out + "\n";
}

std::string render_instructions(const Schedule& schedule) {
  std::string out = heading(schedule) + "\n";
  for (std::size_t w = 0; w < schedule.programs.size(); ++w) {
    out += concat("\nworker ", w, ": ", schedule.activation_buffers[w], " activation buffers, ",
                  schedule.boundary_buffers[w], " boundary buffers\n");
    const std::vector<Instr>& body = schedule.programs[w].body;
    for (std::size_t i = 0; i < body.size(); ++i)
      out += concat("body[", i, "] ", to_string(body[i]), "\n");
  }
  return out;
}

}  // namespace chimera::schedule
