import ACME
package import Crypto
import Glibc
import Proxy
import TLS
import UpstreamAuth

/// The states of files when they were read, to detect changes.
///
/// Take the states before loading the files. A change during the load then counts as a later change.
package struct FileStates: Sendable, Equatable {
  private struct State: Sendable, Equatable {
    var stamp: FileStamp
    /// Names and states of a directory's files; nil for other files.
    var entries: [String: State]?
  }

  /// nil: the file's state can't be read.
  private var states: [String: State?]

  package init(of paths: Set<String>) {
    states = Dictionary(
      paths.map { ($0, Self.state(of: $0, depth: 1, former: nil)) }, uniquingKeysWith: { first, _ in first })
  }

  package var paths: [String] { states.keys.sorted() }
  package var isEmpty: Bool { states.isEmpty }

  /// Returns the current states of the same files. A file that the process may not look at keeps its former state: root
  /// read it at the start, and the serving user sees neither a change nor that there is none.
  package func now() -> FileStates {
    var now = self
    for (path, former) in states {
      now.states.updateValue(Self.state(of: path, depth: 1, former: former), forKey: path)
    }
    return now
  }

  /// Returns the paths of files whose states differ.
  package func differences(from other: FileStates) -> [String] {
    states.filter { path, state in other.states[path] != .some(state) }.keys.sorted()
  }

  /// `depth`: how many levels of directories to read.
  private static func state(of path: String, depth: Int, former: State?) -> State? {
    guard let stamp = FileStamp(path) else { return isForbidden(errno) ? former : nil }
    guard stamp.isDirectory, depth > 0 else { return State(stamp: stamp) }
    do throws(DirectoryError) {
      var entries: [String: State] = [:]
      for name in try namesInDirectory(path) {
        entries[name] = state(of: "\(path)/\(name)", depth: depth - 1, former: former?.entries?[name])
      }
      return State(stamp: stamp, entries: entries)
    } catch {
      return State(stamp: stamp, entries: isForbidden(error.code) ? former?.entries : nil)
    }
  }

  private static func isForbidden(_ code: CInt) -> Bool { code == EACCES || code == EPERM }
}

extension HTTPSettings {
  /// The files to watch: everything that decides who is trusted and which certificates are shown, where `ssl_reload` is
  /// on.
  package var watchedFiles: Set<String> { materialFiles { $0 }.union(fetchedFiles) }

  /// The files of revocation lists that are fetched, and the folders in which others may appear.
  private var fetchedFiles: [String] {
    servers.compactMap { $0.tls?.revocationFetch }.flatMap { fetch in
      let files = fetch.lists.compactMap { try? $0.file.resolvedPath(expecting: .revocation) }
      return files + (fetch.points == .none ? [] : [fetch.folder].compactMap { $0 })
    }
  }

  /// The files that every reload by HUP opens, watched or not.
  package var reloadedFiles: Set<String> { materialFiles { _ in true } }

  /// Collects the files of blocks for which `isMeant` returns true; its argument is the block's `ssl_reload`.
  private func materialFiles(where isMeant: (_ reloads: Bool) -> Bool) -> Set<String> {
    let (references, pins) = material(where: isMeant)
    let paths = references.compactMap { try? $0.resolvedPath(expecting: .certificate) }
    return Set(paths + pins.compactMap(\.path))
  }

  /// The paths of pins, which may be folders.
  var pinPaths: [String] { material { _ in true }.pins.compactMap(\.path) }

  /// Every file of keys, certificates and trust that is loaded, and keys in tokens, each as the configuration names it
  /// first.
  package var materialReferences: [MaterialReference] {
    let (references, pins) = material { _ in true }
    return (references + pins.compactMap(\.reference)).distinct
  }

  private func material(
    where isMeant: (_ reloads: Bool) -> Bool
  ) -> (references: [MaterialReference], pins: [PinSource]) {
    var references: [MaterialReference?] = []
    var pins: [PinSource] = []
    for tls in servers.compactMap(\.clientPolicy) where isMeant(tls.reloads) {
      references += tls.certificates.flatMap { [$0.certificate, $0.key] }
      references += [tls.passwordFile, tls.clientCertificate, tls.trustedCertificate, tls.dhParameters]
      references += tls.revocationLists.map { $0 } + tls.ticketKeys.map { $0 }
      if case .file(let staple) = tls.stapling { references.append(staple) }
      pins += tls.clientPins?.sources ?? []
    }
    references.append(spanExport?.trustedCertificate)
    for store in sharedStores {
      references += [store.passwordFile, store.tls?.certificate?.certificate, store.tls?.certificate?.key]
      references.append(store.tls?.trust.anchors?.file)
      pins += store.tls?.trust.pins?.sources ?? []
    }
    for issuer in Set(acmeCertificates.map(\.issuer)) { references += issuer.material.map { $0 } }
    for (_, location) in everyLocation {
      if let tls = location.upstreamTLS, isMeant(tls.reloads) {
        references += [tls.certificate?.certificate, tls.certificate?.key, tls.passwordFile, tls.trust.anchors?.file]
        references += tls.revocationLists.map { $0 }
        pins += tls.trust.pins?.sources ?? []
      }
      if let envelope = location.envelope, isMeant(envelope.reloads) { references += envelope.keyFiles.map { $0 } }
      for signature in location.signatures where isMeant(signature.reloads) {
        references += signature.keys.map(\.file)
      }
      if let asked = location.upstreamAuth, isMeant(asked.reloads) { references.append(asked.users) }
    }
    return (references.compactMap { $0 }.distinct, pins)
  }
}

extension [MaterialReference] {
  /// Each file once: thousands of server blocks may name the same one.
  fileprivate var distinct: [MaterialReference] {
    var seen: Set<MaterialReference> = []
    return filter { seen.insert($0).inserted }
  }
}

extension PinSource {
  /// The path of a pin's file; nil for a pin that is a hash.
  fileprivate var path: String? { try? reference?.resolvedPath(expecting: .pin) }

  fileprivate var reference: MaterialReference? {
    guard Pin.Spelling(spelling) == .file else { return nil }
    return try? MaterialReference(parsing: spelling, relativeTo: folder, location: location)
  }
}
