import Forward
import Observability
import SPIFFE
import Traffic

extension Workload {
  /// How the agent stands; nil if the configuration takes nothing from it.
  private static func state(_ shared: SharedState) -> WorkloadIdentity.State? {
    let state = shared.workload.current
    return state.endpoint == nil ? nil : state
  }

  static func measure(_ snapshot: MetricsSnapshot, _ page: inout MetricsWriter) {
    let state = state(snapshot.shared)
    page[.workload].gauge(
      "sallyport_spiffe_faults", "Parts of the SPIFFE agent's last message that are not in effect.", [:],
      Int64(state?.material?.faults.count ?? 0))
    guard let state else { return }
    page[.workload].gauge(
      "sallyport_spiffe_up", "1 while the SPIFFE agent's stream is open and its last message is in use.", [:],
      state.condition == .current ? 1 : 0)
    page[.workload].counter(
      "sallyport_spiffe_messages_total", "Messages of the SPIFFE agent that were used.", [:], state.taken)
    page[.workload].counter(
      "sallyport_spiffe_messages_refused_total", "Messages of the SPIFFE agent with a fault.", [:], state.refused)
    page[.workload].counter(
      "sallyport_spiffe_stream_failures_total", "Streams from the SPIFFE agent that failed or could not begin.", [:],
      state.failures)
    page[.workload].family(
      "sallyport_spiffe_identity_end_timestamp_seconds", .gauge, "When an identity of the SPIFFE agent ends.")
    for svid in state.material?.svids ?? [] {
      page[.workload].sample("sallyport_spiffe_identity_end_timestamp_seconds", ["id": svid.id.description], svid.end)
    }
    page[.workload].family("sallyport_spiffe_bundle_authorities", .gauge, "Authorities of a trust domain.")
    for (domain, bundle) in (state.material?.bundles ?? [:]).sorted(by: { $0.key < $1.key }) {
      page[.workload].sample(
        "sallyport_spiffe_bundle_authorities", ["trust_domain": domain.name], Int64(bundle.authorities.count))
    }
  }

  static func problems(_ shared: SharedState, _ generation: Generation, at now: Int64) -> [StatusProblem] {
    guard let problem = state(shared)?.problem(at: now) else { return [] }
    return [StatusProblem(.workload, problem.isFatal ? .error : .warning, "SPIFFE: \(problem.text)")]
  }
}
