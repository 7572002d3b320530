import Bytes
import Glibc
import Testing

@testable import Transport

@Suite(.timeLimit(.minutes(10))) struct ByteStreamTests {
  @Test func `all that is written arrives in order at a slow reader`() async throws {
    let (descriptor, peer) = try Peer.pair()
    let probe = try await StreamProbe.over(descriptor)
    let message = pattern(6 << 20)
    let waiting = try await probe.use { stream in
      var at = 0
      var size = 1
      while at < message.count {
        let end = min(message.count, at + size)
        message[at..<end].withUnsafeBytes { stream.write($0) }
        at = end
        size = size * 3 % 70_001 + 1
      }
      stream.loop.cork.flush()
      return stream.pendingCount
    }
    #expect(waiting > 1 << 20, "the kernel took more than a socket holds")
    #expect(try await peer.read(message.count, piece: 1500) == message)
    var events = probe.events.makeAsyncIterator()
    #expect(await events.next() == .opened)
    #expect(await events.next() == .drained)
    #expect(try await probe.use { $0.pendingCount } == 0)
    #expect(try await probe.use { $0.wireBytesOut } == UInt64(message.count))
    try await probe.giveUp()
  }

  @Test(arguments: [true, false]) func `output that may be held leaves with the owner's next, if the owner will write`(
    writesSoon: Bool
  ) async throws {
    let (descriptor, peer) = try Peer.pair()
    let probe = try await StreamProbe.over(descriptor)
    try await probe.use { stream in
      probe.writesSoon = writesSoon
      stream.mayHold = true
      ([1, 2, 3] as [UInt8]).withUnsafeBytes { stream.transmitLater($0) }
      stream.loop.cork.flush()
    }
    #expect(try await probe.use { $0.wireBytesOut } == (writesSoon ? 0 : 3))
    #expect(try await probe.use { $0.pendingCount } == 0)
    // The kernel's readiness to take output doesn't send what is held.
    peer.write([9])
    for await event in probe.events where event == .bytes([9]) { break }
    #expect(try await probe.use { $0.wireBytesOut } == (writesSoon ? 0 : 3))
    try await probe.use { stream in
      ([4, 5] as [UInt8]).withUnsafeBytes { stream.write($0) }
      stream.loop.cork.flush()
    }
    #expect(try await probe.use { $0.wireBytesOut } == 5)
    #expect(try await peer.read(5) == [1, 2, 3, 4, 5])
    // From here on nothing is held.
    try await probe.use { stream in
      ([6] as [UInt8]).withUnsafeBytes { stream.transmitLater($0) }
      stream.loop.cork.flush()
    }
    #expect(try await peer.read(1) == [6])
    try await probe.giveUp()
  }

  @Test func `held output and more than the kernel takes arrive whole`() async throws {
    let (descriptor, peer) = try Peer.pair()
    let probe = try await StreamProbe.over(descriptor)
    let message = pattern(4 << 20)
    let waiting = try await probe.use { stream in
      probe.writesSoon = true
      stream.mayHold = true
      ([1, 2, 3] as [UInt8]).withUnsafeBytes { stream.transmitLater($0) }
      stream.loop.cork.flush()
      message.withUnsafeBytes { stream.write($0) }
      stream.loop.cork.flush()
      return stream.pendingCount
    }
    #expect(waiting > 1 << 20, "the kernel took more than a socket holds")
    #expect(try await peer.read(3 + message.count) == [1, 2, 3] + message)
    try await probe.giveUp()
  }

  @Test func `what two streams write in turn stays each with its own`() async throws {
    let (one, onePeer) = try Peer.pair()
    let (two, twoPeer) = try Peer.pair()
    let first = try await StreamProbe.over(one)
    let second = try await StreamProbe.over(two)
    try await onLoop { _ in
      for round in 0..<200 {
        pattern(97, seed: round).withUnsafeBytes { first.stream?.write($0) }
        pattern(89, seed: -round).withUnsafeBytes { second.stream?.write($0) }
      }
    }
    #expect(try await onePeer.read(200 * 97) == (0..<200).flatMap { pattern(97, seed: $0) })
    #expect(try await twoPeer.read(200 * 89) == (0..<200).flatMap { pattern(89, seed: -$0) })
    try await first.giveUp()
    try await second.giveUp()
  }

  @Test func `the end of the peer's side comes after its last byte, and writing goes on`() async throws {
    let (descriptor, peer) = try Peer.pair()
    let probe = try await StreamProbe.over(descriptor)
    peer.write([1, 2, 3])
    shutdown(peer.descriptor, Int32(SHUT_WR))
    var seen: [UInt8] = []
    for await event in probe.events {
      if case .bytes(let bytes) = event { seen += bytes }
      if event == .end { break }
    }
    #expect(seen == [1, 2, 3])
    try await probe.use { stream in ([4, 5] as [UInt8]).withUnsafeBytes { stream.write($0) } }
    #expect(try await peer.read(2) == [4, 5])
    try await probe.giveUp()
  }

  @Test func `our end is seen by the peer, who is still heard`() async throws {
    let (descriptor, peer) = try Peer.pair()
    let probe = try await StreamProbe.over(descriptor)
    try await probe.use { stream in
      ([7] as [UInt8]).withUnsafeBytes { stream.write($0) }
      stream.endOutput()
    }
    #expect(try await peer.read(10) == [7])
    peer.write([8])
    for await event in probe.events where event == .bytes([8]) { break }
    try await probe.giveUp()
  }

  @Test func `a reset is read as a failure`() async throws {
    let (listener, address) = try listening()
    defer { close(listener) }
    let probe = try await StreamProbe.over(try Sockets.connect(to: address), isConnecting: true)
    var events = probe.events.makeAsyncIterator()
    #expect(await events.next() == .opened)
    let accepted = try #require(try await acceptedOne(listener))
    Sockets.setLingerZero(accepted)
    close(accepted)
    #expect(await events.next() == .broken)
    try await probe.giveUp()
  }

  /// As a truncated message must not pass for a whole one, whichever call meets the reset first.
  @Test func `a reset that a write meets is read as a failure too`() async throws {
    let (listener, address) = try listening()
    defer { close(listener) }
    let probe = try await StreamProbe.over(try Sockets.connect(to: address), isConnecting: true)
    var events = probe.events.makeAsyncIterator()
    #expect(await events.next() == .opened)
    let accepted = try #require(try await acceptedOne(listener))
    try await onLoop { _ in
      // On the loop, so that no event of the reset comes ahead of the write.
      Sockets.setLingerZero(accepted)
      close(accepted)
      pattern(100).withUnsafeBytes { probe.stream?.write($0) }
      probe.stream?.loop.cork.flush()
    }
    #expect(await events.next() == .broken)
    try await probe.giveUp()
  }

  @Test func `a refused connection is a failure to connect`() async throws {
    let (listener, address) = try listening()
    close(listener)
    let probe = try await StreamProbe.over(try Sockets.connect(to: address), isConnecting: true)
    var events = probe.events.makeAsyncIterator()
    guard case .failed(let reason) = await events.next() else {
      Issue.record("no failure")
      return
    }
    #expect(reason.contains("connect() failed (111"))
    try await probe.giveUp()
  }

  @Test func `a write to who has gone fails once, after what he said before was read`() async throws {
    let (descriptor, peer) = try Peer.pair()
    let probe = try await StreamProbe.over(descriptor, reads: false)
    try await onLoop { _ in
      // On the loop, so that no event of this comes ahead of the write.
      peer.write([9, 9])
      shutdown(peer.descriptor, Int32(SHUT_RDWR))
      probe.reads = true
      pattern(100).withUnsafeBytes { probe.stream?.write($0) }
      probe.stream?.loop.cork.flush()
    }
    var seen: [StreamProbe.Event] = []
    for await event in probe.events {
      seen.append(event)
      if case .failed = event { break }
    }
    #expect(seen.contains(.bytes([9, 9])))
    guard case .failed(let reason)? = seen.last else { return }
    #expect(reason.contains("send() failed"))
    try await probe.giveUp()
  }

  @Test func `a failure that a read has noted is still told`() async throws {
    let (descriptor, peer) = try Peer.pair()
    defer { withExtendedLifetime(peer) {} }
    let probe = try await StreamProbe.over(descriptor)
    try await probe.use { $0.fail(.truncated) }
    try await probe.use { $0.fail(.truncated) }
    try await probe.use { $0.setDeadline(in: 0) }
    var told = 0
    for await event in probe.events {
      if case .failed = event { told += 1 }
      if event == .deadline { break }
    }
    #expect(told == 1)
    try await probe.giveUp()
  }

  @Test func `input that was left unread is there when asked for again`() async throws {
    let (descriptor, peer) = try Peer.pair()
    let probe = try await StreamProbe.over(descriptor, reads: false)
    peer.write(pattern(3000))
    try await probe.use { $0.setDeadline(in: 1) }
    for await event in probe.events where event == .deadline { break }
    try await onLoop { loop in
      probe.reads = true
      if let stream = probe.stream { loop.again(stream) }
    }
    for await event in probe.events {
      guard case .bytes(let bytes) = event else { continue }
      #expect(bytes == pattern(3000))
      break
    }
    try await probe.giveUp()
  }

  @Test func `what is corked goes out before a close`() async throws {
    let (descriptor, peer) = try Peer.pair()
    let probe = try await StreamProbe.over(descriptor)
    try await onLoop { _ in
      pattern(50).withUnsafeBytes { probe.stream?.write($0) }
      probe.stream?.close()
    }
    #expect(try await peer.read(1000) == pattern(50))
    try await probe.giveUp()
  }

  @Test func `a closed stream writes nothing, calls nobody and is let go`() async throws {
    let (descriptor, peer) = try Peer.pair()
    let probe = try await StreamProbe.over(descriptor)
    final class Watch: @unchecked Sendable { weak var stream: ByteStream? }
    let watch = Watch()
    try await onLoop { _ in
      watch.stream = probe.stream
      probe.stream?.setDeadline(in: 5)
      probe.stream?.close()
      probe.stream?.setDeadline(in: 1)
      ([1] as [UInt8]).withUnsafeBytes { probe.stream?.write($0) }
    }
    try await probe.giveUp()
    #expect(try await peer.read(10) == [])
    // The batch in which it was closed is over when the next one runs.
    try await onLoop { _ in }
    #expect(try await onLoop { _ in watch.stream == nil })
  }

  @Test func `a deadline is told on time and only once`() async throws {
    let (descriptor, peer) = try Peer.pair()
    defer { withExtendedLifetime(peer) {} }
    let probe = try await StreamProbe.over(descriptor)
    let began = try await probe.use { stream in
      stream.setDeadline(in: 60_000)
      stream.setDeadline(in: 30)
      return stream.loop.now
    }
    var events = probe.events.makeAsyncIterator()
    #expect(await events.next() == .opened)
    #expect(await events.next() == .deadline)
    #expect(try await onLoop { $0.now } >= began + 30)
    // Whatever was told a second time would come before this.
    peer.write([1])
    #expect(await events.next() == .bytes([1]))
    try await probe.giveUp()
  }
}

private func listening() throws -> (Int32, SocketAddress) {
  let listener = try Sockets.listen(
    on: .ipv4(address: 0x7F00_0001, port: 0), backlog: 8, reuseport: false, ipv6only: true)
  return (listener, try #require(Sockets.localAddress(of: listener)))
}

private func acceptedOne(_ listener: Int32) async throws -> Int32? {
  var ready = pollfd(fd: listener, events: Int16(POLLIN), revents: 0)
  guard poll(&ready, 1, 10_000) == 1 else { return nil }
  return try Sockets.accept(listener)?.descriptor
}
