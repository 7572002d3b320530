import Observability
import Upstream
import Language

extension SettingsBuilder {
  private static let methods: Set<String> = ["hash", "ip_hash", "least_conn", "least_time", "random"]

  /// Builds how the group picks a server. As in nginx, the last method counts.
  mutating func balance(_ scope: Scope, of group: inout UpstreamGroupSettings) -> BalanceSettings? {
    var balance = BalanceSettings()
    var before: Directive?
    for line in scope.directives
    where Self.methods.contains(line.name) || ["keepalive", Sticky.name].contains(line.name) {
      guard Self.methods.contains(line.name) else {
        before = line
        continue
      }
      if let before {
        if before.name == Sticky.name {
          error(
            line.location, "\"\(line.name)\" after \"sticky\": load balancing method redefined",
            hint: "write it above \"sticky\", which is at \(before.location)")
        } else {
          warning(
            line.location, "load balancing method redefined",
            hint: Self.methods.contains(before.name)
              ? "the last one counts; the other is at \(before.location)"
              : "write it above \"keepalive\": older nginx would ignore that one, at \(before.location)")
        }
      }
      before = line
      guard let method = method(line) else { continue }
      group.method = method
      balance.key = line.name == "hash" ? template(line, 0) : nil
    }
    checkParameters(of: group, scope)
    group.zone = zoneName(scope)
    if let line = scope.value(Sticky.name) { balance.sticky = sticky(line, of: group.name) }
    group.isSticky = balance.sticky != nil
    return balance.key == nil && balance.sticky == nil ? nil : balance
  }

  private mutating func method(_ line: Directive) -> BalanceMethod? {
    let words = line.arguments.map(\.text)
    func refuse(_ index: Int, _ hint: String) -> BalanceMethod? {
      error(line.place(index), "invalid parameter \"\(line.text(index))\"", hint: hint)
      return nil
    }
    switch line.name {
    case "ip_hash": return .addressHash
    case "least_conn": return .leastConnections
    case "hash":
      if words.count == 1 { return .hash }
      return words[1] == "consistent" ? .consistentHash : refuse(1, "consistent, or nothing")
    case "least_time":
      guard let time = responseTimes.first(where: { $0.name == words[0] })?.time else {
        return refuse(0, kind == .http ? "header or last_byte" : "connect, first_byte or last_byte")
      }
      if words.count == 2, words[1] != "inflight" { return refuse(1, "inflight, or nothing") }
      return .leastTime(time, countsInFlight: words.count == 2)
    default:
      guard let first = words.first else { return .random }
      guard first == "two" else { return refuse(0, "two, or nothing") }
      let word = words.count == 2 ? words[1] : "least_conn"
      if word == "least_conn" { return .randomTwo(nil) }
      guard let time = responseTimes.first(where: { "least_time=\($0.name)" == word })?.time else {
        let names = responseTimes.dropLast().map { "least_time=\($0.name)" }.joined(separator: ", ")
        return refuse(1, "least_conn, \(names) or least_time=last_byte")
      }
      return .randomTwo(time)
    }
  }

  /// The times that a method can compare, by nginx's names.
  private var responseTimes: [(name: String, time: BalanceMethod.ResponseTime)] {
    switch kind {
    case .http: [("header", .firstByte), ("last_byte", .lastByte)]
    case .stream: [("connect", .connect), ("first_byte", .firstByte), ("last_byte", .lastByte)]
    }
  }

  /// Refuses parameters of servers that the method knows no meaning for.
  private mutating func checkParameters(of group: UpstreamGroupSettings, _ scope: Scope) {
    if group.method.isWithoutBackup {
      for line in scope.own("server") {
        for word in line.arguments.dropFirst() where ["backup", "slow_start"].contains(word.text.splitAtEquals.name) {
          error(
            word.location, "balancing method does not support parameter \"\(word.text)\"",
            hint: "leave it out, or use round robin, least_conn or least_time")
        }
      }
    }
    let weight = group.servers.reduce(0) { $0 + $1.weight }
    if group.method == .consistentHash, weight > HashRing.heaviest {
      error(
        group.location, "the weights of upstream \"\(group.name)\" come to \(weight)",
        hint: "\"hash … consistent\" takes \(HashRing.heaviest) at most: give smaller weights in the same proportion")
    }
  }

  private mutating func zoneName(_ scope: Scope) -> String? {
    guard let line = scope.value("zone") else { return nil }
    let name = line.text(0)
    guard !name.isEmpty else {
      error(line.place(0), "invalid zone name \"\"", hint: "zone NAME 64k;")
      return nil
    }
    guard line.arguments.count == 2 else { return name }
    guard let size = Quantity.size(line.text(1)) else {
      error(line.place(1), "invalid zone size \"\(line.text(1))\"", hint: "such as zone \(name) 64k;")
      return nil
    }
    if size < 32_768 { error(line.place(1), "zone \"\(name)\" is too small", hint: "at least 32k") }
    return name
  }

  // MARK: keepalive

  /// nginx 1.29.7: without the directive, an upstream block has `keepalive 32 local`.
  mutating func keptConnections(_ scope: Scope) -> (count: Int, isLocal: Bool) {
    guard let line = scope.value("keepalive") else { return (32, true) }
    var count = 0
    if let number = Quantity.number(line.text(0)), (0...1_000_000).contains(number) {
      count = number
    } else {
      error(
        line.place(0), "invalid value \"\(line.text(0))\" in \"keepalive\" directive",
        hint: "it must be a number from 0 to 1000000; 0 keeps none")
    }
    if line.arguments.count == 2, line.text(1) != "local" {
      error(line.place(1), "invalid parameter \"\(line.text(1))\"", hint: "local, or nothing")
    }
    return (count, line.arguments.count == 2)
  }
}
