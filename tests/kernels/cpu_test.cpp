// What is the CPU backend's own: its exponential, teams, instruction sets.
#include "chimera/base/threads.h"
#include "cpu/isa.h"
#include "every_op.h"
#include "machines.h"

using namespace chimera;
using namespace chimera::test;

// 3 units in the last place: the polynomial errs by 1e-8 relative, each of its last operations by
// half a unit.
TEST_CASE("exp: a few units in the last place over the whole range, 0, infinity and NaN") {
  for (const cpu::Kernels& k : cpu::usable_kernels()) {
    INFO(k.isa);
    Floats x;
    for (float v = -86.5f; v < 88.7f; v += 0.0137f) x.push_back(v);
    for (float v = 1e-8f; v < 1; v *= 1.1f) x.insert(x.end(), {v, -v});
    x.insert(x.end(), {0.0f, -0.0f, 88.7228f});
    Floats y(x.size());
    k.exp(y.data(), x.data(), 0, std::ssize(x));
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(x[i]));
      worst = std::max(worst, std::abs(static_cast<double>(y[i]) / exact - 1));
    }
    CHECK(worst <= 3 * 0x1p-23);
    const float inf = INFINITY;
    x = {-inf, -1e30f, -200, -87, 89, 1e30f, inf, NAN};
    y.resize(x.size());
    k.exp(y.data(), x.data(), 0, std::ssize(x));
    CHECK(Floats(y.begin(), y.begin() + 7) == Floats{0, 0, 0, 0, inf, inf, inf});
    CHECK(std::isnan(y[7]));
  }
}

TEST_CASE("matmul: the same call gives the same bits") {
  for (const int team : {1, 2}) {
    const int before = team_size();
    set_team_size(team);
    const auto ops = make_cpu_ops(), other = make_cpu_ops();
    const Index M = 131, N = 257, K = 300;
    Floats a = random_floats(M * K, 1), b = random_floats(K * N, 2);
    Floats first(static_cast<std::size_t>(M * N)), again = first;
    for (Ops* o : {ops.get(), ops.get(), other.get()}) {
      o->matmul(tensor(again, {M, N}), tensor(a, {M, K}), Transpose::No, tensor(b, {K, N}),
                Transpose::No, Write::Set);
      if (o == ops.get() && first[0] == 0) first = again;
      CHECK(first == again);
    }
    set_team_size(before);
  }
}

// Every op but matmul splits its work so that no sum depends on the team.
TEST_CASE("ops give the same bits for every team size") {
  const int before = team_size();
  for (const std::string& isa : machine_isas()) {
    INFO(isa);
    const auto ops = make_cpu_ops(isa);
    set_team_size(1);
    const Floats alone = every_op(*ops);
    for (const int team : {2, 3, 5}) {
      set_team_size(team);
      CHECK(every_op(*ops) == alone);
    }
  }
  set_team_size(before);
}

TEST_CASE("instruction sets: baseline always, the best by default, others refused by name") {
  const auto isas = machine_isas();
  REQUIRE(!isas.empty());
  CHECK(isas.front() == "baseline");
  CHECK(cpu_isa_report().find("(auto: " + isas.back() + ")") != std::string::npos);
  std::string message;
  try {
    make_cpu_ops("mmx");
  } catch (const Error& e) {
    message = e.what();
  }
  CHECK(message.find("\"mmx\"") != std::string::npos);
  CHECK(message.find("baseline") != std::string::npos);
  CHECK(matmul_library().find("oneDNN ") == 0);
}
