import Forward
import Observability
import Traffic

extension SharedStore {
  /// How each store of a configuration stands, with its address.
  private static func stores(
    _ shared: SharedState, _ generation: Generation
  ) -> [(store: String, address: String, counts: StoreRecord.Counts)] {
    let records = Dictionary(shared[StoreRecords.self].all) { first, _ in first }
    return generation.http.sharedStores.compactMap { store in
      records[store.name].map { (store.name, store.address, $0) }
    }
  }

  static func measure(_ snapshot: MetricsSnapshot, _ page: inout MetricsWriter) {
    let stores = stores(snapshot.shared, snapshot.generation)
    guard !stores.isEmpty else { return }
    page[.stores].family("sallyport_shared_store_connections", .gauge, "Connections to a shared store that are ready.")
    for (store, _, counts) in stores {
      page[.stores].sample("sallyport_shared_store_connections", ["store": store], UInt64(clamping: counts.ready))
    }
    page[.stores].family(
      "sallyport_shared_store_commands_total", .counter, "What a shared store was asked, by its answer.")
    for (store, _, counts) in stores {
      for (result, count) in [
        ("answered", counts.answered), ("refused", counts.refused), ("unanswered", counts.unanswered),
      ] {
        page[.stores].sample("sallyport_shared_store_commands_total", ["store": store, "result": result], count)
      }
    }
  }

  static func problems(_ shared: SharedState, _ generation: Generation, at now: Int64) -> [StatusProblem] {
    stores(shared, generation).compactMap { store, address, counts in
      counts.problem.map { StatusProblem(.stores, .warning, "The shared store \"\(store)\" (\(address)) \($0)") }
    }
  }
}
