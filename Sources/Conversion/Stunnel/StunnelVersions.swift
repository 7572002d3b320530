/// The versions of TLS that a service of stunnel's negotiates.
struct StunnelVersions {
  private static let known = ["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"]
  private var allowed = Set(["TLSv1.2", "TLSv1.3"])
  private var isSaid = false

  /// nil: nothing is said, and our own default is right.
  var words: [String]? { isSaid ? Self.known.filter(allowed.contains) : nil }

  mutating func only(_ option: StunnelOption, _ block: inout ConvertedBlock) {
    if option.value.lowercased() == "all" {
      return block.change(option.line, "TLSv1.2 and TLSv1.3; older versions must be named by ssl_protocols")
    }
    guard let version = Self.version(option.value) else {
      return block.refuse(option.line, "SSL 2 and 3 aren't there: TLSv1 to TLSv1.3")
    }
    allowed = [version]
    isSaid = true
    block.take(option.line)
  }

  mutating func bound(_ option: StunnelOption, isLowest: Bool, _ block: inout ConvertedBlock) {
    if option.value.lowercased() == "all" { return block.take(option.line) }
    guard let version = Self.version(option.value), let place = Self.known.firstIndex(of: version) else {
      return block.refuse(option.line, "SSL 2 and 3 aren't there: TLSv1 to TLSv1.3", closing: !isLowest)
    }
    if isLowest {
      // A lower bound than ours is said aloud.
      allowed.formUnion(Self.known[place...])
      allowed.subtract(Self.known[..<place])
    } else {
      allowed.subtract(Self.known[(place + 1)...])
      if allowed.isEmpty { allowed = [version] }
    }
    isSaid = true
    block.take(option.line)
  }

  /// Takes `NO_TLSv1_3` and the like; false: the option is of another kind.
  mutating func exclude(_ option: StunnelOption, _ block: inout ConvertedBlock) -> Bool {
    let name = option.value.uppercased()
    switch name {
    case "NO_SSLV2", "NO_SSLV3": block.take(option.line, because: "always so")
    case "-NO_SSLV2", "-NO_SSLV3":
      block.refuse(option.line, "SSL 2 and 3 aren't there: clients need TLS", closing: false)
    case "NO_TLSV1", "NO_TLSV1.1", "NO_TLSV1_1", "NO_TLSV1.2", "NO_TLSV1_2", "NO_TLSV1.3", "NO_TLSV1_3":
      guard let version = Self.version(name.dropFirst(3).replacing("_", with: ".")) else { return false }
      if allowed.remove(version) != nil { isSaid = true }
      block.take(option.line)
    default: return false
    }
    return true
  }

  private static func version(_ text: some StringProtocol) -> String? {
    known.first { $0.lowercased() == text.lowercased() }
  }
}
