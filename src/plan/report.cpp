// The search's result for people.
#include <cstdio>

#include "chimera/base/format.h"
#include "chimera/plan/search.h"

namespace chimera::plan {
namespace {

template <class... Values>
std::string formatted(const char* format, Values... values) {
  char line[400];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

std::string milliseconds(double seconds) {
  return seconds > 0 ? formatted("%.1f", 1e3 * seconds) : "-";
}

// What distinguishes variants of one schedule.
std::string variant(const Candidate& c) {
  const schedule::Request& r = c.request;
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : " ") + part; };
  if (r.pipeline_pairs > 1) add(concat("f=", r.pipeline_pairs));
  if (r.virtual_stages > 1) add(concat("v=", r.virtual_stages));
  if (r.scaling != "direct") add(r.scaling);
  if (r.split_backward) add("split");
  if (r.overlap_steps) add("overlap");
  return out;
}

std::string layers_text(const std::vector<Index>& layers) {
  std::string out;
  for (std::size_t i = 0, end; i < layers.size(); i = end) {
    for (end = i; end < layers.size() && layers[end] == layers[i];) ++end;
    out += concat(out.empty() ? "" : ", ", layers[i]);
    if (end - i > 1) out += concat(" x ", end - i);
  }
  return out;
}

}  // namespace

std::string describe(const Candidate& c) {
  const schedule::Request& r = c.request;
  const std::string more = variant(c);
  return concat(r.schedule, more.empty() ? "" : " " + more, " W=", r.width, " D=", r.depth,
                " B=", c.samples, " N=", r.micro_batches,
                c.recompute == "none" ? "" : ", recompute " + c.recompute,
                r.zero_stage > 0 ? ", ZeRO 1" : "");
}

std::string report(const SearchRequest& request, const SearchResult& result) {
  std::string out =
      formatted("%-13s %-17s %6s %5s %4s %5s %-9s %4s %-9s %10s %10s %11s %7s %23s\n", "schedule",
                "variant", "W", "D", "B", "N", "recompute", "ZeRO", "sync", "step ms", "Eq. 1 ms",
                "tokens/s", "bubble", "memory most / least");
  const double tokens = static_cast<double>(request.batch) * static_cast<double>(request.T);
  for (const Ranked& r : result.ranked) {
    const schedule::Request& q = r.candidate.request;
    out += formatted(
        "%-13s %-17s %6d %5d %4ld %5d %-9s %4d %-9s %10s %10s %11.0f %6.1f%% %23s\n",
        q.schedule.c_str(), variant(r.candidate).c_str(), q.width, q.depth,
        static_cast<long>(r.candidate.samples), q.micro_batches, r.candidate.recompute.c_str(),
        q.zero_stage, q.gradient_sync.c_str(), milliseconds(r.seconds).c_str(),
        milliseconds(r.equation).c_str(), tokens / r.seconds, 100 * r.bubble,
        (human_bytes(r.most_memory, 2) + " / " + human_bytes(r.least_memory, 2)).c_str());
  }
  if (result.ranked.empty()) out += "no layout fits\n";
  if (!result.ranked.empty())
    out += concat("layers per stage of the first: ",
                  layers_text(result.ranked.front().candidate.layers), "\n");
  out += concat(result.candidates, " layouts could run; ", result.simulated, " simulated",
                result.limited ? ", then the limit was reached: others may be faster\n"
                               : "; no other can be faster than the last shown\n");
  for (const Refusal& refusal : result.refusals)
    out += concat("refused: ", refusal.count, " x ", refusal.kind, ", such as ", refusal.example,
                  "\n");
  return out;
}

}  // namespace chimera::plan
