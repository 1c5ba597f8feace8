// Runs messages of a schedule on SimGrid: one actor a rank and channel that sends, one that receives.
//
// Input (standard input), times in microseconds, rates in bytes a microsecond:
//   wires W                          then W rates
//   ranks N
//   routes R                         then R lines: source target latency count wire...
//   messages M                       then M lines: source target channel round bytes reads r... writes w...
// Output: the microsecond at which the last message has arrived.
//
// What a message waits for is found here from the slots that it reads: all messages that arrived at its source in
// earlier rounds of its channel and wrote one of them. Wires are SimGrid links without latency, which it shares max-min
// fairly; latency is slept after the last byte, so that it shares nothing.

#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Message {
  int source, target, channel, round;
  double latency = 0;
  unsigned long bytes;
  std::vector<int> reads, writes, waits;
  sg4::SemaphorePtr arrived = nullptr;
};

static std::vector<Message> messages;
static double last_us = 0;

static sg4::Mailbox* box(size_t index) { return sg4::Mailbox::by_name("m" + std::to_string(index)); }

static void wait_for(int index) {
  messages[index].arrived->acquire();
  messages[index].arrived->release();  // for the next one that waits
}

// Messages of one rank and channel, in one direction, by round.
using Turns = std::map<int, std::vector<size_t>>;

static void send_all(const Turns& turns) {
  for (const auto& turn : turns) {
    std::vector<sg4::ActorPtr> helpers;
    for (size_t index : turn.second)
      helpers.push_back(sg4::Actor::create("send", sg4::this_actor::get_host(), [index] {
        for (int other : messages[index].waits) wait_for(other);
        static int payload = 0;
        box(index)->put(&payload, messages[index].bytes);
      }));
    for (const auto& helper : helpers) helper->join();
  }
}

static void receive_all(const Turns& turns) {
  for (const auto& turn : turns) {
    std::vector<sg4::ActorPtr> helpers;
    for (size_t index : turn.second)
      helpers.push_back(sg4::Actor::create("receive", sg4::this_actor::get_host(), [index] {
        box(index)->get<int>();
        sg4::Actor::create("arrive", sg4::this_actor::get_host(), [index] {
          sg4::this_actor::sleep_for(messages[index].latency);
          last_us = std::max(last_us, sg4::Engine::get_clock());
          messages[index].arrived->release();
        });
      }));
    for (const auto& helper : helpers) helper->join();
  }
}

int main(int argc, char** argv) {
  sg4::Engine engine(&argc, argv);
  sg4::Engine::set_config("network/model:CM02");
  sg4::Engine::set_config("network/crosstraffic:0");
  sg4::Engine::set_config("network/weight-S:0");
  sg4::Engine::set_config("network/latency-factor:1");
  sg4::Engine::set_config("network/bandwidth-factor:1");
  sg4::Engine::set_config("network/TCP-gamma:0");
  sg4::Engine::set_config("contexts/stack-size:16");

  std::string word;
  size_t count;
  int ranks;
  auto* zone = sg4::create_full_zone("zone");
  std::cin >> word >> count;
  std::vector<sg4::Link*> wires;
  for (size_t i = 0; i < count; i++) {
    double rate;
    std::cin >> rate;
    auto* link = zone->create_link("w" + std::to_string(i), rate);
    link->set_latency(0.0);
    wires.push_back(link->seal());
  }
  std::cin >> word >> ranks;
  std::vector<sg4::Host*> hosts;
  for (int i = 0; i < ranks; i++) hosts.push_back(zone->create_host("r" + std::to_string(i), 1.0)->seal());
  std::cin >> word >> count;
  std::map<std::pair<int, int>, double> latency;
  for (size_t i = 0; i < count; i++) {
    int source, target, length;
    double us;
    std::cin >> source >> target >> us >> length;
    latency[{source, target}] = us;
    std::vector<sg4::LinkInRoute> route;
    for (int k = 0; k < length; k++) {
      int wire;
      std::cin >> wire;
      route.emplace_back(wires[wire]);
    }
    zone->add_route(hosts[source]->get_netpoint(), hosts[target]->get_netpoint(), nullptr, nullptr, route, false);
  }
  zone->seal();
  std::cin >> word >> count;
  messages.resize(count);
  for (auto& message : messages) {
    int length;
    std::cin >> message.source >> message.target >> message.channel >> message.round >> message.bytes;
    message.latency = latency[{message.source, message.target}];
    for (auto* slots : {&message.reads, &message.writes}) {
      std::cin >> length;
      slots->resize(length);
      for (int& slot : *slots) std::cin >> slot;
    }
    message.arrived = sg4::Semaphore::create(0);
  }
  // Slots of a rank that were written in earlier rounds, by whom.
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; i++) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [](size_t a, size_t b) { return messages[a].round < messages[b].round; });
  std::map<std::tuple<int, int, int>, std::vector<int>> written;
  for (size_t from = 0; from < count;) {
    size_t to = from;
    while (to < count && messages[order[to]].round == messages[order[from]].round) to++;
    for (size_t k = from; k < to; k++) {
      auto& message = messages[order[k]];
      std::set<int> waits;
      for (int slot : message.reads)
        for (int other : written[{message.channel, message.source, slot}]) waits.insert(other);
      message.waits.assign(waits.begin(), waits.end());
    }
    for (size_t k = from; k < to; k++) {
      const auto& message = messages[order[k]];
      for (int slot : message.writes) written[{message.channel, message.target, slot}].push_back((int)order[k]);
    }
    from = to;
  }
  std::map<std::pair<int, int>, Turns> sends, receives;
  for (size_t i = 0; i < count; i++) {
    sends[{messages[i].channel, messages[i].source}][messages[i].round].push_back(i);
    receives[{messages[i].channel, messages[i].target}][messages[i].round].push_back(i);
  }
  for (const auto& each : sends)
    sg4::Actor::create("sender", hosts[each.first.second], [&each] { send_all(each.second); });
  for (const auto& each : receives)
    sg4::Actor::create("receiver", hosts[each.first.second], [&each] { receive_all(each.second); });
  engine.run();
  std::printf("%.9g\n", last_us);
  return 0;
}
