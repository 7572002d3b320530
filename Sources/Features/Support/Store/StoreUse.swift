import Forward
import Language
import Observability
import Traffic

/// What a limit or a check takes of a store: `store=NAME [fail=open | closed | local]`.
package struct StoreUse: Sendable, Hashable {
  /// What counts while the store can't be asked.
  package enum Failing: String, Sendable, Hashable, CaseIterable {
    /// The request passes.
    case open
    /// The request is refused.
    case closed
    /// This process decides by what it knows itself.
    case local
  }

  package let store: String
  package let failing: Failing

  /// Says what a change means. `what`: what is in the store.
  static func compare(_ what: String, _ old: StoreUse?, _ new: StoreUse?, _ found: inout TrustChanges) {
    switch (old, new) {
    case (let old?, nil): found.opens("\(what) are no longer shared with other machines (store \(old.store))")
    case (nil, let new?): found.closes("\(what) are shared with other machines (store \(new.store))")
    case (let old?, let new?):
      if old.store != new.store { found.other("\(what) are in the store \(new.store) (was \(old.store))") }
      if old.failing != new.failing {
        found.other("\(what), while the store can't be asked: \(new.failing.rawValue) (was \(old.failing.rawValue))")
      }
    case (nil, nil): break
    }
  }
}

extension StoreUse {
  /// Reads `store=` and `fail=` among the words of a line. `failing`: what counts without `fail=`.
  static func read(
    _ words: some Sequence<Word>, of directive: String, standard failing: Failing,
    allowing allowed: [Failing] = Failing.allCases, _ builder: inout SettingsBuilder
  ) -> Self? {
    var (store, mode): (Word?, Word?)
    for word in words {
      switch word.text.splitAtEquals.name {
      case "store": store = word
      case "fail": mode = word
      default: break
      }
    }
    var use = failing
    if let mode {
      let hint = allowed.map { "fail=\($0.rawValue)" }.joined(separator: ", ")
      guard let said = mode.text.splitAtEquals.value.flatMap({ Failing(rawValue: $0) }), allowed.contains(said)
      else {
        builder.error(mode.location, "invalid parameter \"\(mode.text)\" in \"\(directive)\"", hint: "\(hint)")
        return nil
      }
      guard store != nil else {
        builder.error(mode.location, "\"\(mode.text)\" without \"store=\" in \"\(directive)\"", hint: "store=NAME")
        return nil
      }
      use = said
    }
    guard let store else { return nil }
    guard builder.kind == .http else {
      builder.error(
        store.location, "\"store=\" in \"stream\": only limits of \"http\" have a store", hint: "leave it out")
      return nil
    }
    let name = store.text.splitAtEquals.value ?? ""
    guard builder[SharedStores.self].stores[name] != nil else {
      builder.error(
        store.location, "\"\(directive)\" names the store \"\(name)\", which no \"shared_store\" declares",
        hint: "shared_store \(name.isEmpty ? "NAME" : name) redis://HOST:PORT;")
      return nil
    }
    return Self(store: name, failing: use)
  }
}
