#pragma once
// The golden models trained by the command line.
#include <string>

namespace chimera::test {

// Runs both optimizer recipes of both models, `workers` of them under `launcher` (empty: threads),
// and holds the losses of metrics.jsonl against the reference's.
void check_golden_run(const std::string& schedule, int depth, int width,
                      const std::string& launcher);

}  // namespace chimera::test
