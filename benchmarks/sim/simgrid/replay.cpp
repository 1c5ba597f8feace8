// A schedule on a machine, carried out by SimGrid: the oracle that benchmarks/sim/oracle.py compares busbw with.
//
// replay FILE prints the simulated seconds, and the real seconds that the simulation took without reading.
//
// FILE holds the machine (capacities of resources, routes of connections over them, latency and cap of each) and the
// messages of the schedule with the slots that they read and write. Nothing of busbw's own dependencies is in it: who
// waits for whom follows here from slots, which count the writes that earlier rounds make to them.
//
//   dependencies  each rank is two actors a channel: one sends its rounds in order, each message when its slots are ready;
//                 one receives its rounds in order. Nothing else holds a rank up.
//   barrier       all messages of a round begin together, and the next round begins when all have been added.
//
// SimGrid shares wires max-min fairly, but weighs flows by their latency, as TCP does. So links have none, and a message
// counts its latency after its last byte was received, unless FILE says `links` (then all latencies should be equal).

#include <simgrid/s4u.hpp>
#include <xbt/log.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

// SimGrid takes whole bytes, which shares of a tensor are not, and its precision of times is absolute; where machines are
// uneven, 1e-7 of a message can move the whole by 0.5 %, as who meets whom on a wire changes. So it is told
// amounts in units of 2^-20 byte and times in microseconds.
static constexpr double SCALE = 1 << 20, MICRO = 1e-6;

static uint64_t scaled(double bytes)
{
  return static_cast<uint64_t>(bytes * SCALE + 0.5);
}

struct Connection {
  int source, target;
  double latency, cap;
};

struct Run {
  long source_slot, target_slot, length;
  bool reduces;
};

struct Message {
  int channel, round, connection;
  double bytes, added;
  std::vector<Run> runs;
  int missing                = 0; // slots that it still waits for
  sg4::SemaphorePtr is_ready = nullptr;
};

static std::vector<sg4::Host*> hosts;
static std::vector<Connection> connections;
static std::vector<Message> messages;
static std::vector<double> busy; // each rank adds one message after the other until then
static double gamma;
static bool in_links;
static double last = 0;

// Of each slot: the writes that were done, and the messages that wait for so many.
struct Slot {
  int done = 0, planned = 0;
  std::multimap<int, int> waiting;
};
static std::vector<std::vector<Slot>> slots; // [channel][rank * slot count + slot]
static std::vector<long> slot_count;

static Slot& slot_of(int channel, int rank, long slot)
{
  return slots[channel][rank * slot_count[channel] + slot];
}

static void read(const char* file_name, std::string& mode)
{
  std::ifstream in(file_name);
  std::string latency;
  size_t resources, ranks, pairs, channels, count;
  in >> mode >> latency >> gamma >> resources;
  gamma /= MICRO;
  in_links   = latency == "links";
  auto* zone = sg4::create_full_zone("machine");
  std::vector<const sg4::Link*> wires;
  for (size_t i = 0; i < resources; i++) {
    double capacity;
    in >> capacity;
    wires.push_back(zone->create_link("wire" + std::to_string(i), capacity * SCALE * MICRO)
                        ->set_sharing_policy(sg4::Link::SharingPolicy::SHARED)
                        ->seal());
  }
  in >> ranks;
  busy.assign(ranks, 0.0);
  for (size_t i = 0; i < ranks; i++)
    hosts.push_back(zone->create_host("rank" + std::to_string(i), 1e9)->seal());
  in >> pairs;
  for (size_t i = 0; i < pairs; i++) {
    Connection one;
    size_t hops, wire;
    in >> one.source >> one.target >> one.latency >> one.cap >> hops;
    one.latency /= MICRO;
    std::vector<sg4::LinkInRoute> way;
    for (size_t k = 0; k < hops; k++) {
      in >> wire;
      way.emplace_back(wires[wire]);
    }
    if (in_links && one.latency > 0)
      way.emplace_back(zone->create_link("latency" + std::to_string(i), 1e18)
                           ->set_sharing_policy(sg4::Link::SharingPolicy::FATPIPE)
                           ->set_latency(one.latency)
                           ->seal());
    if (std::none_of(connections.begin(), connections.end(),
                     [&one](const Connection& other) { return other.source == one.source && other.target == one.target; }))
      zone->add_route(hosts[one.source]->get_netpoint(), hosts[one.target]->get_netpoint(), nullptr, nullptr, way, false);
    connections.push_back(one);
  }
  zone->seal();
  in >> channels;
  slot_count.resize(channels);
  slots.resize(channels);
  for (size_t i = 0; i < channels; i++) {
    in >> slot_count[i];
    slots[i].resize(slot_count[i] * ranks);
  }
  in >> count;
  messages.resize(count);
  for (auto& one : messages) {
    size_t runs;
    in >> one.channel >> one.round >> one.connection >> one.bytes >> one.added >> runs;
    one.runs.resize(runs);
    for (auto& run : one.runs)
      in >> run.source_slot >> run.target_slot >> run.length >> run.reduces;
  }
  if (not in) {
    std::cerr << "replay: " << file_name << " ends too soon\n";
    std::exit(2);
  }
}

// Each message waits, in each slot that it reads, for the writes of all earlier rounds. Messages stand in the order of rounds.
static void plan()
{
  for (size_t first = 0; first < messages.size();) {
    size_t end = first;
    while (end < messages.size() && messages[end].round == messages[first].round && messages[end].channel == messages[first].channel)
      end++;
    for (size_t i = first; i < end; i++) {
      messages[i].is_ready = sg4::Semaphore::create(0);
      for (const auto& run : messages[i].runs)
        for (long k = 0; k < run.length; k++) {
          auto& slot = slot_of(messages[i].channel, connections[messages[i].connection].source, run.source_slot + k);
          if (slot.planned > 0) {
            slot.waiting.emplace(slot.planned, i);
            messages[i].missing++;
          }
        }
      if (messages[i].missing == 0)
        messages[i].is_ready->release();
    }
    for (size_t i = first; i < end; i++)
      for (const auto& run : messages[i].runs)
        for (long k = 0; k < run.length; k++)
          slot_of(messages[i].channel, connections[messages[i].connection].target, run.target_slot + k).planned++;
    first = end;
  }
}

static void mark_done(const Message& one)
{
  last = std::max(last, sg4::Engine::get_clock());
  for (const auto& run : one.runs)
    for (long k = 0; k < run.length; k++) {
      auto& slot = slot_of(one.channel, connections[one.connection].target, run.target_slot + k);
      auto found = slot.waiting.equal_range(++slot.done);
      for (auto at = found.first; at != found.second; ++at)
        if (--messages[at->second].missing == 0)
          messages[at->second].is_ready->release();
    }
}

// What happens when the last byte was received: the latency, and adding it up.
static void deliver(size_t which)
{
  const auto& one    = messages[which];
  const auto& route  = connections[one.connection];
  const double waits = in_links ? 0.0 : route.latency;
  if (waits == 0 && one.added * gamma == 0) {
    mark_done(one);
    return;
  }
  sg4::Actor::create("deliver", hosts[route.target], [which, waits] {
    const auto& here = messages[which];
    if (waits > 0)
      sg4::this_actor::sleep_for(waits);
    if (here.added * gamma > 0) {
      double& until = busy[connections[here.connection].target];
      until         = std::max(until, sg4::Engine::get_clock()) + here.added * gamma;
      sg4::this_actor::sleep_until(until);
    }
    mark_done(here);
  });
}

static sg4::Mailbox* mailbox_of(size_t which)
{
  return sg4::Mailbox::by_name(std::to_string(which));
}

static void send(size_t which)
{
  static char data;
  auto& one = messages[which];
  one.is_ready->acquire();
  auto comm = mailbox_of(which)->put_init(&data, scaled(one.bytes));
  if (connections[one.connection].cap > 0)
    comm->set_rate(connections[one.connection].cap * SCALE * MICRO);
  comm->start();
  comm->wait();
}

using Turns = std::vector<std::vector<size_t>>; // a rank's messages, by rounds

static void send_all(const Turns& turns)
{
  for (const auto& turn : turns) {
    std::vector<sg4::ActorPtr> others;
    for (size_t i = 1; i < turn.size(); i++)
      others.push_back(sg4::Actor::create("also", sg4::this_actor::get_host(), send, turn[i]));
    send(turn[0]);
    for (const auto& other : others)
      other->join();
  }
}

static void receive_all(const Turns& turns)
{
  std::vector<void*> data(1);
  for (const auto& turn : turns) {
    data.assign(turn.size(), nullptr);
    std::vector<size_t> left = turn;
    std::vector<sg4::CommPtr> comms;
    for (size_t i = 0; i < turn.size(); i++)
      comms.push_back(mailbox_of(turn[i])->get_async<void>(&data[i]));
    while (not comms.empty()) {
      const auto ended = sg4::Comm::wait_any(comms);
      deliver(left[ended]);
      comms.erase(comms.begin() + ended);
      left.erase(left.begin() + ended);
    }
  }
}

static void with_dependencies()
{
  plan();
  std::map<std::pair<int, int>, std::map<int, std::vector<size_t>>> sent, received; // (channel, rank) -> round -> messages
  for (size_t i = 0; i < messages.size(); i++) {
    const auto& route = connections[messages[i].connection];
    sent[{messages[i].channel, route.source}][messages[i].round].push_back(i);
    received[{messages[i].channel, route.target}][messages[i].round].push_back(i);
  }
  for (const auto* side : {&sent, &received})
    for (const auto& [who, by_round] : *side) {
      Turns turns;
      for (const auto& [round, members] : by_round)
        turns.push_back(members);
      sg4::Actor::create(side == &sent ? "sends" : "receives", hosts[who.second], side == &sent ? send_all : receive_all, turns);
    }
}

static std::vector<std::pair<double, size_t>> arrived; // in this round: when, and which message

static void receive(size_t which)
{
  void* data;
  mailbox_of(which)->get_async<void>(&data)->wait();
  const auto& route = connections[messages[which].connection];
  arrived.emplace_back(sg4::Engine::get_clock() + (in_links ? 0.0 : route.latency), which);
}

static void round_by_round()
{
  std::map<int, std::vector<size_t>> rounds;
  for (size_t i = 0; i < messages.size(); i++)
    rounds[messages[i].round].push_back(i);
  for (const auto& [number, members] : rounds) {
    arrived.clear();
    std::vector<sg4::ActorPtr> actors;
    for (size_t which : members) {
      const auto& route         = connections[messages[which].connection];
      messages[which].is_ready = sg4::Semaphore::create(1);
      actors.push_back(sg4::Actor::create("sends", hosts[route.source], send, which));
      actors.push_back(sg4::Actor::create("receives", hosts[route.target], receive, which));
    }
    for (const auto& actor : actors)
      actor->join();
    std::sort(arrived.begin(), arrived.end());
    double end = 0;
    for (const auto& [at, which] : arrived) {
      double& until = busy[connections[messages[which].connection].target];
      double done   = at;
      if (messages[which].added * gamma > 0)
        done = until = std::max(until, at) + messages[which].added * gamma;
      end = std::max(end, done);
    }
    sg4::this_actor::sleep_until(end);
    last = sg4::Engine::get_clock();
  }
}

int main(int argc, char** argv)
{
  xbt_log_control_set("xbt_cfg.thres:warning");
  sg4::Engine engine(&argc, argv);
  // Plain max-min, without what is for TCP: no factors, no windows, no traffic of acknowledgements, no rounding of times.
  for (const char* setting :
       {"network/model:CM02", "network/bandwidth-factor:1", "network/latency-factor:1", "network/weight-S:0",
        "network/TCP-gamma:1e20", "network/crosstraffic:0", "surf/precision:1e-10", "maxmin/precision:1e-9",
        "contexts/stack-size:64"})
    sg4::Engine::set_config(setting);
  if (argc != 2) {
    std::cerr << "usage: replay FILE\n";
    return 2;
  }
  std::string mode;
  read(argv[1], mode);
  const auto began = std::chrono::steady_clock::now();
  if (mode == "barrier")
    sg4::Actor::create("all", hosts[0], round_by_round);
  else
    with_dependencies();
  engine.run();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  for (const auto& channel : slots)
    for (const auto& slot : channel)
      if (mode != "barrier" && slot.done != slot.planned) {
        std::cerr << "replay: messages wait for each other\n";
        return 1;
      }
  std::printf("%.17g %.6f\n", last * MICRO, took.count());
  return 0;
}
