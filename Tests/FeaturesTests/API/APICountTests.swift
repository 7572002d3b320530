@testable import Features
@testable import Forward
import Observability
import Testing
@testable import Traffic
@testable import Upstream

@Suite struct `Counts that the API shows` {
  @Test func `a zone has its requests by status, those without a response, and those in progress`() throws {
    let rig = try Rig("server { listen 80; server_name a; location / { api; } }")
    let meter = try #require(rig.live.listeners[0].fallback.meter)
    for status in [204, 0, 404, 404] { meter.count(status: status, limit: 0, time: 1, received: 2, sent: 3) }
    meter.count(status: 503, limit: 503, time: 1, received: 0, sent: 0)
    var json = JSONText()
    let zones = ServerZones(rig.worker.metrics, isOfStream: false, processing: [ObjectIdentifier(meter): 2])
    json.object { zones.append(to: &$0) }
    #expect(
      json.text
        == #"{"a":{"processing":2,"requests":5,"responses":{"1xx":0,"2xx":1,"3xx":0,"4xx":2,"5xx":0,"limited":1,"#
        + #""codes":{"204":1,"404":2,"503":1},"total":4},"discarded":1,"received":8,"sent":12}}"#)
  }

  @Test func `a server has means of its times, how long it was out, and its statuses`() throws {
    let rig = try Rig("upstream u { zone u 64k; server 127.0.0.1:9; } server { listen 80; location / { api; } }")
    let group = try #require(rig.live.zonedGroups.first), meter = try #require(group.meter?.server(0))
    for (status, time) in [(200, 4), (502, 8)] { meter.didRespond(status, after: UInt64(time)) }
    for time in [10, 20, 60] as [UInt64] { meter.didMove(received: 1, sent: 2, after: time) }
    meter.wasOut(for: 3000)
    let view = APIView(
      metrics: rig.worker.metrics, generation: rig.live.generation, groups: [group], shared: rig.worker.shared,
      address: "")
    let text = try view.text(.upstream("u", isOfStream: false))
    for part in [
      #""header_time":6"#, #""response_time":30"#, #""downtime":3000"#, #""codes":{"200":1,"502":1},"total":2}"#,
    ] { #expect(text.contains(part), "\(part): \(text)") }
  }
}
