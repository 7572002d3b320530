package import Crypto
package import Enrolment
package import Envelope
package import Observability
package import SPIFFE
package import TLS
package import Transport
package import Upstream
package import UpstreamAuth

/// State that outlives a generation and that all workers share. The daemon makes one and hands it down.
///
/// Everything in it is bounded, and safe to use from any thread.
package final class SharedState: Sendable {
  package let features: FeatureList
  package let pool: BlockingPool
  package let resolver: Resolver
  package let ocsp: OCSPClient
  /// Where the revocation lists are that clients' certificates lack.
  package let points = RevocationPoints()
  package let tokens: TokenRefusals
  /// What the SPIFFE agent has given the process.
  package let workload = WorkloadIdentity()
  package let enrolment: EnrolmentState
  /// The challenges of upstream servers.
  package let challenges: ChallengeMemory
  /// What the error log says of faults that repeat.
  package let faults = FaultLog()
  package let clientFaults = ClientFaultLog()
  /// How many clients' certificates did not verify of late, and why.
  package let certificateRefusals = CertificateRefusals()
  package let groupZones = GroupZones()
  /// What answers challenges of ACME.
  package let challengeCertificates = ChallengeCertificates()
  /// Keys of session tickets that stores have.
  package let ticketRings = TicketKeyRings()
  /// What generations leave in the allocator.
  package let memory = GenerationMemory()
  /// By what `sallyport health` marks its handshakes.
  package let healthMark = HealthMark()
  package let workers = WorkerDirectory()
  package let parts = SharedParts()
  /// Whether requests are about something before a server block is chosen for them.
  package let entry = EntryState()
  /// What goes on being wrong, for `health`, the status page and the metrics.
  package let ongoing = OngoingFaults()
  /// Certificates that the API denies.
  package let denials = ClientDenials()
  package let groupLists = GroupLists()
  package let replays = ReplayWindows()
  /// The nonces of signed requests.
  package let nonces = ReplayWindow()

  package init(features: FeatureList) {
    self.features = features
    pool = BlockingPool()
    resolver = Resolver(pool: pool)
    ocsp = OCSPClient(pool: pool)
    tokens = TokenRefusals()
    enrolment = EnrolmentState(tokens: tokens)
    challenges = ChallengeMemory(pool: pool)
  }
}
