import Testing
import Transport

@Suite struct `A rig` {
  @Test func `is gone with its loop`() throws {
    weak var loop: EventLoop?
    do { loop = try Rig("server { listen 80; return 204; }").loop }
    #expect(loop == nil)
  }
}
