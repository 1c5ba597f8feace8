// A ring all-reduce on one switch as a SimGrid user writes it, for benchmarks/sim/speed.py: an actor a rank.
//
// ring N SIZE_BYTES BANDWIDTH_BPS LATENCY_S prints the simulated seconds.

#include <simgrid/s4u.hpp>
#include <xbt/log.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

static void rank(int me, int ranks, uint64_t chunk)
{
  static char data;
  void* got;
  auto* to   = sg4::Mailbox::by_name(std::to_string((me + 1) % ranks));
  auto* from = sg4::Mailbox::by_name(std::to_string(me));
  for (int step = 0; step < 2 * (ranks - 1); step++) {
    auto sends    = to->put_async(&data, chunk);
    auto receives = from->get_async<void>(&got);
    receives->wait();
    sends->wait();
  }
}

int main(int argc, char** argv)
{
  xbt_log_control_set("xbt_cfg.thres:warning");
  sg4::Engine engine(&argc, argv);
  for (const char* setting : {"network/model:CM02", "network/bandwidth-factor:1", "network/latency-factor:1",
                              "network/weight-S:0", "network/crosstraffic:0", "network/TCP-gamma:1e20",
                              "surf/precision:1e-12", "contexts/stack-size:64"})
    sg4::Engine::set_config(setting);
  if (argc != 5) {
    std::fputs("usage: ring N SIZE_BYTES BANDWIDTH_BPS LATENCY_S\n", stderr);
    return 2;
  }
  const int ranks        = std::atoi(argv[1]);
  const uint64_t chunk   = std::strtoull(argv[2], nullptr, 10) / ranks;
  const double bandwidth = std::atof(argv[3]), latency = std::atof(argv[4]);
  auto* zone   = sg4::create_star_zone("switch");
  for (int i = 0; i < ranks; i++) {
    auto* host = zone->create_host(std::to_string(i), 1e9);
    auto* link = zone->create_split_duplex_link("link" + std::to_string(i), bandwidth)->set_latency(latency / 2)->seal();
    zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr,
                    {{link, sg4::LinkInRoute::Direction::UP}}, true);
    sg4::Actor::create("rank", host, rank, i, ranks, chunk);
  }
  zone->seal();
  engine.run();
  std::printf("%.17g\n", sg4::Engine::get_clock());
  return 0;
}
