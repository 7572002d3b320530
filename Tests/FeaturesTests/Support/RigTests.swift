import Testing
import Transport

@Suite struct `A rig` {
  @Test func `is gone with its loop, whose descriptors are few`() throws {
    weak var loop: EventLoop?
    do {
      let rig = try Rig("server { listen 80; return 204; }")
      #expect(try rig.answer("GET / HTTP/1.1\r\nHost: h\r\n\r\n").hasPrefix("HTTP/1.1 204"))
      loop = rig.loop
    }
    #expect(loop == nil)
  }
}
