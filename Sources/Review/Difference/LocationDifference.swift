import Enrolment
import Forward
import Identity
import Traffic
import Upstream

/// A location of a compared server, or the part of the server outside its locations.
struct ComparedLocation {
  let server: ComparedServer
  let settings: LocationSettings
  /// The spellings from the outermost location inward; empty for the server itself.
  let key: String

  var isRoot: Bool { key.isEmpty }

  static func all(of server: ComparedServer) -> [ComparedLocation] {
    func inside(_ level: LocationSettings, _ prefix: String) -> [ComparedLocation] {
      let named = level.locations.map { (settings: $0, name: $0.match.asWritten) }
      let blocks = level.conditional.enumerated().map { (settings: $1, name: "(block \($0 + 1))") }
      return (named + blocks).flatMap { inner -> [ComparedLocation] in
        let key = prefix.isEmpty ? inner.name : "\(prefix) \(inner.name)"
        return [ComparedLocation(server: server, settings: inner.settings, key: key)] + inside(inner.settings, key)
      }
    }
    return [root(of: server)] + inside(server.settings.root, "")
  }

  static func root(of server: ComparedServer) -> ComparedLocation {
    ComparedLocation(server: server, settings: server.settings.root, key: "")
  }

  /// What a location that the old configuration has not means.
  func asNew(in server: ComparedServer) -> [TrustChange] {
    var found = TrustChanges()
    let content = settings.contentWords(server.configuration.http)
    let guards = settings.guardingDirectives
    let who =
      guards.isEmpty ? "for every client that the server lets in" : "limited by \(guards.joined(separator: ", "))"
    let sentence = "is new: \(content), \(who)"
    if guards.isEmpty, !server.asksForCertificate { found.opens(sentence) } else { found.other(sentence) }
    return found.all
  }
}

/// What changes at one location that both configurations have.
struct LocationDifference {
  private(set) var changes: [TrustChange] = []

  init(_ old: ComparedLocation, _ new: ComparedLocation) {
    var found = TrustChanges()
    Self.compareAccess(old.settings, new.settings, &found)
    let names = (old.server.configuration.http.slotNames, new.server.configuration.http.slotNames)
    func size(_ settings: LocationSettings) -> Int? {
      settings.limits.maxBodySize == 0 ? nil : Int(clamping: settings.limits.maxBodySize)
    }
    if !new.server.isOfStream {
      found.limit("the body of a request", size(old.settings), size(new.settings), unit: " bytes")
    }
    new.server.configuration.http.features.compare(
      old.settings, new.settings,
      ComparedNames(old: names.0, new: names.1, traffic: new.server.isOfStream ? .stream : .http), &found)
    if let before = old.settings[UpstreamPass.self], let after = new.settings[UpstreamPass.self] {
      UpstreamDifference(before, old.server.configuration, after, new.server.configuration).compare(&found)
    }
    if !new.settings.hasSameKindOfContent(as: old.settings) {
      let words = new.settings.contentWords(new.server.configuration.http)
      if new.settings.hasContent { found.opens(words) } else { found.closes(words) }
    }
    changes = found.all
  }

  private static func compareAccess(_ old: LocationSettings, _ new: LocationSettings, _ found: inout TrustChanges) {
    found.flag(
      !old.isInternal, !new.isInternal, opens: "clients may ask for it directly (no longer internal)",
      closes: "clients can no longer ask for it directly (internal)")
  }
}
