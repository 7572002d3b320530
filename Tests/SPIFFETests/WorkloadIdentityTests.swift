import Glibc
import TestSupport
import Testing

@testable import SPIFFE

@Suite struct `What is told of the agent` {
  private let now = Int64(time(nil))

  private func state(_ condition: WorkloadIdentity.Condition, seconds: Int64? = 3600) throws -> WorkloadIdentity.State {
    let domain = try TestTrustDomain()
    let identity = WorkloadIdentity()
    let material = try seconds.map { seconds in
      try WorkloadMaterial(
        WorkloadMessage(domain.svid("/web", seconds: seconds), "spiffe://example.org/web", of: domain).bytes)
    }
    identity.update {
      $0.endpoint = "unix:/agent.sock"
      $0.condition = condition
      $0.material = material
    }
    return identity.current
  }

  @Test func `is nothing while its identity is current`() throws {
    #expect(try state(.current).problem(at: now) == nil)
  }

  @Test func `is a warning while the identity lasts and the agent is away`() throws {
    let problem = try #require(try state(.failing(reason: "gone", since: now)).problem(at: now))
    #expect(!problem.isFatal && problem.text.contains("gone"))
  }

  @Test func `is an error without an identity, and after its end`() throws {
    let none = try #require(try state(.failing(reason: "gone", since: now), seconds: nil).problem(at: now))
    #expect(none.isFatal && none.text.contains("the SPIFFE agent at unix:/agent.sock gives none: gone"))
    #expect(try #require(try state(.unasked, seconds: nil).problem(at: now)).text.contains("has not answered yet"))
    #expect(try #require(try state(.current).problem(at: now + 3601)).isFatal)
    #expect(try #require(try state(.failing(reason: "gone", since: now)).problem(at: now + 3601)).isFatal)
    // A clock from another age must not trap.
    #expect(try state(.failing(reason: "gone", since: now)).problem(at: .min)?.isFatal == false)
  }
}
