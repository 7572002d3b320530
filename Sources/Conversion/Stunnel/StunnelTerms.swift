/// What stunnel verifies of its peer, by `verify` and by the options that have taken its place.
struct StunnelTerms {
  private(set) var verifiesChain = false
  private(set) var verifiesPeer = false
  /// A peer without a certificate is accepted.
  private(set) var isOptional = false
  /// The line that says how the peer is verified.
  private(set) var lineOfLevel: OldLine?
  /// The line that requires a certificate without saying whose.
  private(set) var lineOfRequirement: OldLine?
  private(set) var taken: [(line: OldLine, reason: String)] = []
  private(set) var fault: (line: OldLine, reason: String)?

  init(options: [String: [StunnelOption]]) {
    if let level = options["verify"]?.last {
      lineOfLevel = level.line
      switch level.value {
      case "0": break
      case "1": (verifiesChain, isOptional) = (true, true)
      case "2": verifiesChain = true
      case "3": (verifiesChain, verifiesPeer) = (true, true)
      case "4": verifiesPeer = true
      default: fault = (level.line, "verify has a level from 0 to 4")
      }
      if level.value != "1", verifiesChain || verifiesPeer { taken.append((level.line, "")) }
    }
    var isRequired = verifiesChain && !isOptional || verifiesPeer
    for (name, isChain) in [("verifychain", true), ("verifypeer", false)] {
      guard let option = options[name]?.last else { continue }
      switch option.value.lowercased() {
      case "yes":
        if isChain { verifiesChain = true } else { verifiesPeer = true }
        isRequired = true
        isOptional = false
        lineOfLevel = option.line
        taken.append((option.line, ""))
      case "no":
        // It takes back what `verify` says, if it comes later; stunnel's own order is not known here.
        if options["verify"] != nil { fault = (option.line, "it contradicts verify: leave out one of them") }
        taken.append((option.line, ""))
      default: fault = (option.line, "expected yes or no")
      }
    }
    if let option = options["requirecert"]?.last {
      switch option.value.lowercased() {
      case "yes":
        isOptional = false
        if verifiesChain || verifiesPeer { taken.append((option.line, "")) } else { lineOfRequirement = option.line }
      case "no":
        taken.append((option.line, isRequired ? "verifyChain and verifyPeer require a certificate" : ""))
      default: fault = (option.line, "expected yes or no")
      }
    }
  }
}
