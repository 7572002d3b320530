import Foundation
import Glibc
import TestSupport
import Testing

@testable import Crypto

@Suite(.serialized) struct `OpenSSL's memory for secrets` {
  @Test func `that can't be locked says whether the limit or the system is the cause`() {
    func refusal(_ code: Int32, _ limit: UInt64) -> SecureHeap.LockRefusal {
      .init(code: code, limit: limit, wanted: 1 << 20)
    }
    #expect(refusal(ENOMEM, 65_536) == .limit && refusal(0, 65_536) == .limit && refusal(EPERM, 0) == .limit)
    // A seccomp profile answers with an errno of its own, whatever the limit is.
    #expect(refusal(EPERM, 8 << 20) == .system(code: EPERM) && refusal(ENOSYS, .max) == .system(code: ENOSYS))
    #expect(refusal(0, .max) == .system(code: 0))
    #expect(refusal(EPERM, .max).words.contains("(1: Operation not permitted): see the seccomp profile"))
    #expect(!refusal(EPERM, .max).words.contains("RLIMIT"))
  }

  @Test func `holds what is private in a key while the key exists`() throws {
    let outcome = SecureHeap.start(bytes: 1 << 20)
    #expect(outcome != .missing)
    // A second call changes nothing.
    #expect(SecureHeap.start(bytes: 1 << 20) != .missing)
    let before = SecureHeap.used
    let keys = try (0..<16).map { _ in try PrivateKey.generate(.p256) }
    // Other tests use it at the same time; 32 bytes for each key are there in any case.
    #expect(keys.count == 16 && SecureHeap.used >= min(before, 0) + 16 * 32)
  }
}
