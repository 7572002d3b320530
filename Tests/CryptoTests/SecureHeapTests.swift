import Foundation
import TestSupport
import Testing

@testable import Crypto

@Suite(.serialized) struct `OpenSSL's memory for secrets` {
  @Test func `holds what is private in a key while the key exists`() throws {
    let outcome = SecureHeap.start(bytes: 1 << 20)
    #expect(outcome == .locked || outcome == .swappable)
    // A second call changes nothing.
    #expect(SecureHeap.start(bytes: 1 << 20) != .missing)
    let before = SecureHeap.used
    let keys = try (0..<16).map { _ in try PrivateKey.generate(.p256) }
    // Other tests use it at the same time; 32 bytes for each key are there in any case.
    #expect(keys.count == 16 && SecureHeap.used >= min(before, 0) + 16 * 32)
  }
}
