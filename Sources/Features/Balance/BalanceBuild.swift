import Forward
import Language
import Observability
import Traffic
import Upstream

extension Balance {
  private static let methods: Set<String> = Set(directives.dropLast().map(\.name))

  /// Builds how the group picks a server. As in nginx, the last method counts.
  static func settings(_ scope: Scope, of group: inout UpstreamGroupSettings, _ builder: inout SettingsBuilder)
    -> BalanceSettings?
  {
    var balance = BalanceSettings()
    var before: Directive?
    for line in scope.directives
    where methods.contains(line.name) || [UpstreamGroups.kept.name, Sticky.name].contains(line.name) {
      guard methods.contains(line.name) else {
        before = line
        continue
      }
      if let before {
        if before.name == Sticky.name {
          builder.error(
            line.location, "\"\(line.name)\" after \"sticky\": load balancing method redefined",
            hint: "write it above \"sticky\", which is at \(before.location)")
        } else {
          builder.warning(
            line.location, "load balancing method redefined",
            hint: methods.contains(before.name)
              ? "the last one counts; the other is at \(before.location)"
              : "write it above \"keepalive\": older nginx would ignore that one, at \(before.location)")
        }
      }
      before = line
      guard let method = method(line, &builder) else { continue }
      group.method = method
      balance.key = line.name == "hash" ? builder.template(line, 0) : nil
    }
    checkParameters(of: group, scope, &builder)
    group.zone = zoneName(scope, &builder)
    if let line = scope.value(Sticky.name) { balance.sticky = StickySettings.read(line, of: group.name, &builder) }
    group.isSticky = balance.sticky != nil
    return balance.key == nil && balance.sticky == nil ? nil : balance
  }

  private static func method(_ line: Directive, _ builder: inout SettingsBuilder) -> BalanceMethod? {
    let words = line.arguments.map(\.text)
    func refuse(_ index: Int, _ hint: String) -> BalanceMethod? {
      builder.error(line.place(index), "invalid parameter \"\(line.text(index))\"", hint: hint)
      return nil
    }
    switch line.name {
    case "ip_hash": return .addressHash
    case "least_conn": return .leastConnections
    case "hash":
      if words.count == 1 { return .hash }
      return words[1] == "consistent" ? .consistentHash : refuse(1, "consistent, or nothing")
    case "least_time":
      guard let time = responseTimes(builder.kind).first(where: { $0.name == words[0] })?.time else {
        return refuse(0, builder.kind == .http ? "header or last_byte" : "connect, first_byte or last_byte")
      }
      if words.count == 2, words[1] != "inflight" { return refuse(1, "inflight, or nothing") }
      return .leastTime(time, countsInFlight: words.count == 2)
    default:
      guard let first = words.first else { return .random }
      guard first == "two" else { return refuse(0, "two, or nothing") }
      let word = words.count == 2 ? words[1] : "least_conn"
      if word == "least_conn" { return .randomTwo(nil) }
      guard let time = responseTimes(builder.kind).first(where: { "least_time=\($0.name)" == word })?.time else {
        let names = responseTimes(builder.kind).dropLast().map { "least_time=\($0.name)" }.joined(separator: ", ")
        return refuse(1, "least_conn, \(names) or least_time=last_byte")
      }
      return .randomTwo(time)
    }
  }

  /// The times that a method can compare, by nginx's names.
  private static func responseTimes(_ kind: TrafficKind) -> [(name: String, time: BalanceMethod.ResponseTime)] {
    switch kind {
    case .http: [("header", .firstByte), ("last_byte", .lastByte)]
    case .stream: [("connect", .connect), ("first_byte", .firstByte), ("last_byte", .lastByte)]
    }
  }

  /// Refuses parameters of servers that the method knows no meaning for.
  private static func checkParameters(of group: UpstreamGroupSettings, _ scope: Scope, _ builder: inout SettingsBuilder)
  {
    if group.method.isWithoutBackup {
      for line in UpstreamGroups.server.lines(in: scope) {
        for word in line.arguments.dropFirst() where ["backup", "slow_start"].contains(word.text.splitAtEquals.name) {
          builder.error(
            word.location, "balancing method does not support parameter \"\(word.text)\"",
            hint: "leave it out, or use round robin, least_conn or least_time")
        }
      }
    }
    let weight = group.servers.reduce(0) { $0 + $1.weight }
    if group.method == .consistentHash, weight > HashRing.heaviest {
      builder.error(
        group.location, "the weights of upstream \"\(group.name)\" come to \(weight)",
        hint: "\"hash … consistent\" takes \(HashRing.heaviest) at most: give smaller weights in the same proportion")
    }
  }

  private static func zoneName(_ scope: Scope, _ builder: inout SettingsBuilder) -> String? {
    guard let line = zone.line(in: scope) else { return nil }
    let name = line.text(0)
    guard !name.isEmpty else {
      builder.error(line.place(0), "invalid zone name \"\"", hint: "zone NAME 64k;")
      return nil
    }
    guard line.arguments.count == 2 else { return name }
    guard let size = Quantity.size(line.text(1)) else {
      builder.error(line.place(1), "invalid zone size \"\(line.text(1))\"", hint: "such as zone \(name) 64k;")
      return nil
    }
    if size < 32_768 { builder.error(line.place(1), "zone \"\(name)\" is too small", hint: "at least 32k") }
    return name
  }
}
