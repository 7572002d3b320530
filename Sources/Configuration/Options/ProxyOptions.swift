import Forward
import Language
import Traffic
/// The options of `sallyport proxy` together with the variables of the environment.
///
/// An option wins over its variable. A variable with the prefix `SALLYPORT_` that no option has is a fault, because a
/// mistyped name would drop a check in silence.
package struct ProxyOptions: Sendable, Hashable {
  private var values: [ProxyOption: [ProxyValue]] = [:]

  /// `given`: the values of the command line by option. `environment`: all variables of the process.
  package init(
    given: [ProxyOption: [String]], environment: [(name: String, value: String)]
  ) throws(ProxyOptionFaults) {
    var faults: [ProxyOptionFault] = []
    for option in ProxyOption.allCases {
      let texts = given[option] ?? []
      if !texts.isEmpty { values[option] = texts.map { ProxyValue(option, $0, origin: option.spelling) } }
    }
    for (name, value) in environment where name.hasPrefix(ProxyOption.prefix) {
      guard let option = ProxyOption.allCases.first(where: { $0.variable == name }) else {
        if !KubernetesVariable.isOne(name, value) { faults.append(Self.unknown(name)) }
        continue
      }
      guard values[option]?.first?.origin != option.spelling else { continue }
      let lines = option.isRepeatable ? value.split(whereSeparator: \.isNewline).map(String.init) : [value]
      values[option] = lines.map { ProxyValue(option, $0, origin: name) }
      // A variable that another tool filled with nothing must not drop a check.
      if lines.isEmpty { faults.append(Self.empty(name)) }
    }
    for option in ProxyOption.allCases {
      let found = values[option] ?? []
      if let value = found.first(where: { $0.text.isEmpty }) { faults.append(Self.empty(value.origin)) }
      if found.count > 1, !option.isRepeatable {
        let hint = option == .clientCA ? "put the certificates of several CAs into one file" : nil
        faults.append(ProxyOptionFault("\(option.spelling) is given \(found.count) times", hint: hint))
      }
    }
    guard faults.isEmpty else { throw ProxyOptionFaults(faults) }
  }

  package subscript(option: ProxyOption) -> [ProxyValue] { values[option] ?? [] }

  package func one(_ option: ProxyOption) -> ProxyValue? { values[option]?.first }

  /// Sets what `--demo-ca` stands for.
  package mutating func set(_ option: ProxyOption, _ text: String, origin: String) {
    values[option] = [ProxyValue(option, text, origin: origin)]
  }

  /// Whether clients come in clear, from this machine: the proxy has no certificate to show them.
  package var isOfClientSide: Bool { values[.cert] == nil }

  /// The options in the words that a proxy with `--cert` uses. Their origins stay.
  func inWordsOfBothSides(_ faults: inout [ProxyOptionFault]) -> ProxyOptions {
    var spoken = self
    for option in ProxyOption.allCases {
      guard let same = option.besideCertificate, let value = one(option) else { continue }
      if !isOfClientSide {
        if option == .starttls { continue }
        faults.append(
          ProxyOptionFault(
            "\(value.origin) belongs to a proxy without --cert, whose clients come in clear",
            hint: "with \(one(.cert)?.origin ?? "--cert"), write \(same.spelling)"))
        continue
      }
      if let other = one(same) {
        faults.append(ProxyOptionFault("\(value.origin) and \(other.origin) mean the same", hint: "leave one out"))
      }
      spoken.values[same] = values[option]
      spoken.values[option] = nil
    }
    return spoken
  }

  private static func unknown(_ name: String) -> ProxyOptionFault {
    let known = ProxyOption.allCases.map(\.variable)
    let near = Spelling.nearest(to: name, among: known).map { "did you mean \($0)?" }
    return ProxyOptionFault(
      "the variable \(name) is not one of sallyport's", hint: near ?? "`sallyport proxy --help` lists them; unset it")
  }

  private static func empty(_ origin: String) -> ProxyOptionFault {
    ProxyOptionFault("\(origin) is empty", hint: "give a value, or leave it out")
  }
}

/// All that is wrong with the options.
package struct ProxyOptionFaults: Error, Sendable, Hashable {
  package let all: [ProxyOptionFault]
  package init(_ all: [ProxyOptionFault]) { self.all = all }
}

/// The variables that Kubernetes puts into each container for a service whose name begins with `sallyport`, in the form
/// of Docker's links: SALLYPORT_SERVICE_HOST, SALLYPORT_PORT=tcp://10.0.0.1:443, SALLYPORT_PORT_443_TCP_ADDR.
enum KubernetesVariable {
  static func isOne(_ name: String, _ value: String) -> Bool {
    let words = name.split(separator: "_", omittingEmptySubsequences: false).map(String.init)
    if let service = words.lastIndex(of: "SERVICE"), service > 0 {
      let rest = Array(words[(service + 1)...])
      if rest == ["HOST"] || rest.first == "PORT" { return true }
    }
    for port in words.indices where port > 0 && words[port] == "PORT" {
      let rest = Array(words[(port + 1)...])
      guard (2...3).contains(rest.count), UInt16(rest[0]) != nil, ["TCP", "UDP", "SCTP"].contains(rest[1]) else {
        continue
      }
      if rest.count == 2 || ["PROTO", "PORT", "ADDR"].contains(rest[2]) { return true }
    }
    // A person's own SALLYPORT_PORT=8443 is a mistake to tell.
    return words.last == "PORT" && ["tcp://", "udp://", "sctp://"].contains { value.hasPrefix($0) }
  }
}
