import Crypto
import Synchronization

/// One valid certificate of a name.
struct HeldCertificate: Sendable, Hashable {
  let serial: String
  /// Seconds since 1970.
  let notAfter: Int64
  /// `urn:device:…` (RFC 5280's uniformResourceIdentifier); nil where the certificate itself is not in certs/, so that nobody
  /// can say what it is for.
  let uris: [String]?
}

/// What this process remembers of an authority's register, so that an enrolment need not read all of it.
///
/// It must never answer for files that look otherwise than those that were read (device, inode, size, times): then
/// everything is read again, whoever changed them. Blocks, so never on an event loop.
final class AuthorityRegister: Sendable {
  /// What a change may do.
  enum Standing {
    /// Nothing is to be mended or renewed: a line may be added to the index, which looks like this.
    case addable(FileStamp?)
    /// The index, or the list, must be written anew.
    case behind
  }

  private struct State {
    var reading: AuthorityReading?
    /// A revocation of the index is not in the list.
    var isListBehind = false
    /// By common name, the serials of the certificates that were valid when they were read.
    var holders: [[UInt8]: [String]] = [:]
    /// By serial, what certificates say that have been looked at. A serial is never issued twice.
    var uris: [String: [String]] = [:]
    /// The same for names that the index does not tell for sure.
    var names: [String: [[UInt8]]] = [:]
    var readings = 0
  }

  private let state = Mutex(State())

  /// How often everything was read: for tests.
  var readings: Int { state.withLock { $0.readings } }

  /// What a change under the lock meets.
  func found(_ store: AuthorityStore) throws(AuthorityError) -> Standing {
    try current(store) { state, reading in
      reading.isFileBehind || state.isListBehind || reading.isListEnding ? .behind : .addable(reading.stamps.index)
    }
  }

  func entry(_ serial: String, in store: AuthorityStore) throws(AuthorityError) -> AuthorityIndex.Entry? {
    try current(store) { $1.index[serial: serial] }
  }

  /// The valid certificates of a common name.
  func held(
    by name: CommonName, in store: AuthorityStore, at now: Int64
  ) throws(AuthorityError) -> [HeldCertificate] {
    try current(store) { state, reading in
      (state.holders[Array(name.text.utf8)] ?? []).compactMap { serial in
        guard let entry = reading.index[serial: serial], entry.state == .valid, entry.notAfter >= now else {
          return nil
        }
        if state.uris[serial] == nil {
          state.uris[serial] = store.certificate(serial)?.subjectAltNames.uris.map(\.description)
        }
        return HeldCertificate(serial: serial, notAfter: entry.notAfter, uris: state.uris[serial])
      }
    }
  }

  /// Takes in what was just added under the lock; `stamp`: how the index looks by that. When it, or certs/, was changed by
  /// others in the same moment, everything is read again.
  func add(_ entry: AuthorityIndex.Entry, _ certificate: Certificate, _ stamp: FileStamp, in store: AuthorityStore) {
    state.withLock { state in
      let stamps = AuthorityReading.Stamps(store.folder)
      guard stamps.index == stamp, stamps.list == state.reading?.stamps.list else {
        state.reading = nil
        return
      }
      state.reading?.index.add(entry)
      state.reading?.stamps = stamps
      state.uris[entry.serial] = certificate.subjectAltNames.uris.map(\.description)
      for name in certificate.subject.commonName.all { state.holders[name, default: []].append(entry.serial) }
    }
  }

  /// Runs `body` on what is known, which is read first where it is not, or the files look otherwise.
  private func current<Answer>(
    _ store: AuthorityStore, _ body: (inout State, AuthorityReading) -> Answer
  ) throws(AuthorityError) -> Answer {
    try state.withLock { (state) throws(AuthorityError) in
      if let known = state.reading, known.stamps == AuthorityReading.Stamps(store.folder) {
        return body(&state, known)
      }
      state.reading = nil
      let reading = try AuthorityReading(store)
      state.readings &+= 1
      state.isListBehind = reading.isListDue(for: reading.index)
      state.holders = [:]
      for entry in reading.index.entries where entry.state == .valid {
        for name in Self.names(of: entry, store, &state) { state.holders[name, default: []].append(entry.serial) }
      }
      state.reading = reading
      return body(&state, reading)
    }
  }

  private static func names(
    of entry: AuthorityIndex.Entry, _ store: AuthorityStore, _ state: inout State
  ) -> [[UInt8]] {
    if let told = entry.certainCommonNames { return told }
    if let known = state.names[entry.serial] { return known }
    let names = (store.certificate(entry.serial)?.subject.commonName ?? entry.commonName).all
    state.names[entry.serial] = names
    return names
  }
}
