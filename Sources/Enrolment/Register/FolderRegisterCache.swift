import Crypto
import Synchronization

/// Caches an authority's register for this process, so that an enrolment need not read all of it.
///
/// The cache is valid only while the files have the same states (device, inode, size, times) as when they were read.
/// After any change, whoever made it, everything is read again. Blocks, so never use it on an event loop.
final class FolderRegisterCache: Sendable {
  /// How a change may write the register.
  enum Standing {
    /// Nothing needs repair or renewal: a line may be appended to the index, which has this state.
    case addable(FileStamp?)
    /// The index or the CRL must be written again.
    case behind
  }

  private struct State {
    var reading: AuthorityReading?
    /// Whether the CRL lacks a revocation of the index.
    var isListBehind = false
    /// The serials of the certificates that were valid when they were read, by common name.
    var holders: [[UInt8]: [String]] = [:]
    /// The URIs of certificates that were read, by serial. A serial is never issued twice.
    var uris: [String: [String]] = [:]
    /// The common names of certificates that were read, because the index is ambiguous about them, by serial.
    var names: [String: [[UInt8]]] = [:]
    var readings = 0
  }

  private let state = Mutex(State())

  /// How often everything was read, for tests.
  var readings: Int { state.withLock { $0.readings } }

  /// Returns how a change may write the register. Call it under the lock.
  func found(_ register: FolderRegister) throws(AuthorityError) -> Standing {
    try current(register) { state, reading in
      reading.isFileBehind || state.isListBehind || reading.isListEnding ? .behind : .addable(reading.stamps.index)
    }
  }

  func entry(_ serial: String, in register: FolderRegister) throws(AuthorityError) -> AuthorityIndex.Entry? {
    try current(register) { $1.index[serial: serial] }
  }

  /// Returns the valid certificates of a common name.
  func held(
    by name: CommonName, in register: FolderRegister, at now: Int64
  ) throws(AuthorityError) -> [HeldCertificate] {
    try current(register) { state, reading in
      (state.holders[Array(name.text.utf8)] ?? []).compactMap { serial in
        guard let entry = reading.index[serial: serial], entry.state == .valid, entry.notAfter >= now else {
          return nil
        }
        if state.uris[serial] == nil {
          state.uris[serial] = register.certificate(serial)?.subjectAltNames.uris.map(\.description)
        }
        return HeldCertificate(serial: serial, notAfter: entry.notAfter, uris: state.uris[serial])
      }
    }
  }

  /// Records an entry that was just appended under the lock. `stamp`: the state of the index after that. If another
  /// program changed the index or the CRL at the same moment, everything is read again.
  func add(_ entry: AuthorityIndex.Entry, _ certificate: Certificate, _ stamp: FileStamp, in register: FolderRegister) {
    state.withLock { state in
      let stamps = AuthorityReading.Stamps(register.folder)
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

  /// Runs `body` on the cached reading. Reads everything first if nothing is cached or the files' states differ.
  private func current<Answer>(
    _ register: FolderRegister, _ body: (inout State, AuthorityReading) -> Answer
  ) throws(AuthorityError) -> Answer {
    try state.withLock { (state) throws(AuthorityError) in
      if let known = state.reading, known.stamps == AuthorityReading.Stamps(register.folder) {
        return body(&state, known)
      }
      state.reading = nil
      let reading = try AuthorityReading(register)
      state.readings &+= 1
      state.isListBehind = reading.isListDue(for: reading.index)
      state.holders = [:]
      for entry in reading.index.entries where entry.state == .valid {
        for name in Self.names(of: entry, register, &state) { state.holders[name, default: []].append(entry.serial) }
      }
      state.reading = reading
      return body(&state, reading)
    }
  }

  private static func names(
    of entry: AuthorityIndex.Entry, _ register: FolderRegister, _ state: inout State
  ) -> [[UInt8]] {
    if let told = entry.certainCommonNames { return told }
    if let known = state.names[entry.serial] { return known }
    let names = (register.certificate(entry.serial)?.subject.commonName ?? entry.commonName).all
    state.names[entry.serial] = names
    return names
  }
}
