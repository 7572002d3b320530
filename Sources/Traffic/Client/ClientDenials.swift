import Bytes
package import Crypto
import Glibc
import Observability
import Synchronization

/// What names a client's certificate for the API.
package enum ClientName: Sendable, Equatable {
  /// SHA-256 of the certificate (`cert:HEX` of pins), or SHA-1 as `$ssl_client_fingerprint` has it.
  case fingerprint([UInt8])
  /// As `$ssl_client_serial` has it.
  case serial(String)
  /// As `$ssl_client_s_dn` has it.
  case subject(String)

  /// nil: no fingerprint.
  package init?(fingerprint text: String) {
    let digits = text.hasPrefix("cert:") ? String(text.dropFirst("cert:".count)) : text
    guard digits.utf8.count <= 128, let octets = try? Hex.decode(digits), octets.count == 32 || octets.count == 20
    else {
      return nil
    }
    self = .fingerprint(octets)
  }

  /// For the log.
  package var words: String {
    switch self {
    case .fingerprint(let octets): Hex.encode(octets)
    case .serial(let serial): "with serial \(LogEscape.text(Array(serial.utf8)))"
    case .subject(let subject): "\"\(LogEscape.text(Array(subject.utf8)))\""
    }
  }

  package func names(_ certificate: Certificate) -> Bool {
    switch self {
    case .fingerprint(let octets):
      octets.count == 32 ? certificate.sha256 == octets : certificate.sha1Fingerprint == Hex.encode(octets)
    case .serial(let serial): certificate.serial.uppercased() == serial.uppercased()
    case .subject(let subject): certificate.subject.rfc2253 == subject
    }
  }
}

/// The certificates that the API denies for a time: no handshake with one of them is admitted by any server, whatever its
/// rules say. A reload keeps them, a process that takes this one's place gets them, and a restart finds them in the state
/// directory, if there is one.
package final class ClientDenials: Sendable {
  package static let limit = 4096
  /// Seconds.
  package static let longest = 30 * 86_400

  /// By fingerprint: when they end, in milliseconds of the monotonic clock.
  private let ends = Mutex<[[UInt8]: UInt64]>([:])
  /// By fingerprint: whose certificate it is, as far as it came since the start. A fingerprint alone says nobody which of
  /// two denials may end.
  private let subjects = Mutex<[[UInt8]: (subject: String, serial: String)]>([:])
  /// By fingerprint: who asked for the denial.
  private let reasons = Mutex<[[UInt8]: DenialReason]>([:])
  /// Whether there is any, so that handshakes look at nothing else otherwise.
  private let areAny = Atomic<Bool>(false)

  /// Where they are kept; nil: in memory alone.
  private let kept = Mutex<DenialState?>(nil)
  /// One write at a time, each with what counts when it begins.
  private let writing = Mutex<Void>(())

  package var state: DenialState? { kept.withLock { $0 } }
  package func keep(in state: DenialState) { kept.withLock { $0 = state } }

  /// Writes them to the state directory. Blocks.
  package func write() throws(DenialState.Fault) {
    guard let state else { return }
    let fault = writing.withLock { _ -> DenialState.Fault? in
      let wall = UInt64(clamping: Int64(time(nil)))
      let entries = left(unit: 1000).map {
        DenialState.Entry(fingerprint: $0.fingerprint, end: wall &+ $0.end, reason: $0.reason)
      }
      do throws(DenialState.Fault) { try state.write(entries) } catch { return error }
      return nil
    }
    if let fault { throw fault }
  }

  /// Each with what is left of it, in so many milliseconds.
  package func left(unit: UInt64, now: UInt64 = MonotonicClock.milliseconds) -> [DenialState.Entry] {
    let reasons = reasons.withLock { $0 }
    return ends.withLock { $0 }.filter { $0.value > now }
      .map {
        DenialState.Entry(fingerprint: $0.key, end: ($0.value - now + unit - 1) / unit, reason: reasons[$0.key])
      }
      .sorted { $0.fingerprint.lexicographicallyPrecedes($1.fingerprint) }
  }

  /// `reason`: nil if nobody knows it. Returns false if there are too many.
  package func deny(
    _ fingerprint: [UInt8], seconds: Int, for reason: DenialReason? = nil, now: UInt64 = MonotonicClock.milliseconds
  ) -> Bool {
    ends.withLock { ends in
      ends = ends.filter { $0.value > now }
      guard ends.count < Self.limit || ends[fingerprint] != nil else { return false }
      reasons.withLock { reasons in
        reasons = reasons.filter { ends[$0.key] != nil }
        reasons[fingerprint] = reason
      }
      ends[fingerprint] = now &+ UInt64(max(1, min(seconds, Self.longest))) * 1000
      areAny.store(true, ordering: .releasing)
      return true
    }
  }

  /// Returns false if it was not denied.
  package func allow(_ fingerprint: [UInt8]) -> Bool {
    subjects.withLock { $0[fingerprint] = nil }
    reasons.withLock { $0[fingerprint] = nil }
    return ends.withLock { ends in
      defer { areAny.store(!ends.isEmpty, ordering: .releasing) }
      return ends.removeValue(forKey: fingerprint) != nil
    }
  }

  /// Seconds for which the certificate is denied; nil: it isn't.
  package func rest(_ certificate: Certificate?, now: UInt64 = MonotonicClock.milliseconds) -> UInt64? {
    guard areAny.load(ordering: .acquiring), let certificate else { return nil }
    let names = [certificate.sha256, (try? Hex.decode(certificate.sha1Fingerprint)) ?? []]
    let (end, denied) = ends.withLock { ends in (names.compactMap { ends[$0] }.max(), names.filter { ends[$0] != nil })
    }
    guard let end, end > now else { return nil }
    subjects.withLock { subjects in
      if subjects.count >= Self.limit { subjects.removeAll() }
      let shown = (certificate.subject.rfc2253.cut(to: 256), certificate.serial)
      for name in denied { subjects[name] = shown }
    }
    return (end - now + 999) / 1000
  }

  /// Fingerprints as hexadecimal digits, with the seconds that are left, in order.
  package func all(now: UInt64 = MonotonicClock.milliseconds) -> [DeniedCertificate] {
    let subjects = subjects.withLock { $0 }, reasons = reasons.withLock { $0 }
    return ends.withLock { $0 }.filter { $0.value > now }
      .map { name, end in
        DeniedCertificate(
          fingerprint: Hex.encode(name), seconds: (end - now + 999) / 1000, subject: subjects[name]?.subject,
          serial: subjects[name]?.serial, reason: reasons[name])
      }
      .sorted { $0.fingerprint < $1.fingerprint }
  }
}

/// A certificate that the API denies.
package struct DeniedCertificate: Sendable, Equatable {
  /// Hexadecimal digits.
  package let fingerprint: String
  /// Those that are left.
  package let seconds: UInt64
  /// Whose it is; nil: it has not come since the start.
  package var subject: String?
  /// As `$ssl_client_serial`; nil: it has not come since the start.
  package var serial: String?
  /// nil: nobody knows it.
  package var reason: DenialReason?
}

/// Who asked for a denial, when, and what they wrote about it: whoever finds the denial later can ask them.
package struct DenialReason: Sendable, Hashable {
  /// Seconds since 1970.
  package let since: Int64
  package let asker: String
  /// Empty for none.
  package let note: String

  /// Octets, as all lengths here. What is cut gets a mark behind it.
  package static let longestNote = 128
  static let longestAsker = 256

  package init(_ asker: String, _ note: String, since: Int64 = Int64(time(nil))) {
    (self.since, self.asker, self.note) = (since, asker.cut(to: Self.longestAsker - 8), note)
  }

  /// Whether a text can be a note: a line for people, without what a terminal obeys.
  package static func admits(note: String) -> Bool {
    note.utf8.count <= longestNote
      && note.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) }
  }
}
