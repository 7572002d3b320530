import Proxy

/// Which limits on requests, connections and sizes changed.
struct LimitDifference {
  /// The names of variables by slot, before and after.
  let names: ([Int: String], [Int: String])

  func compare(_ old: LocationSettings, _ new: LocationSettings, _ found: inout TrustChanges) {
    func size(_ settings: LocationSettings) -> Int? {
      settings.limits.maxBodySize == 0 ? nil : Int(clamping: settings.limits.maxBodySize)
    }
    found.limit("the body of a request", size(old), size(new), unit: " bytes")
    compareRequests(old.traffic?.requests, new.traffic?.requests, &found)
    compareConnections(old.traffic?.connections, new.traffic?.connections, &found)
    let rates = (old.traffic?.rate?.rate?.text(names.0), new.traffic?.rate?.rate?.text(names.1))
    if rates.0 != rates.1 {
      switch rates {
      case (let before?, nil): found.opens("the speed of a response is no longer limited (was \(before))")
      case (nil, let after?): found.closes("the speed of a response is limited to \(after)")
      case (let before, let after):
        found.other("the speed of a response is limited to \(after ?? "") (was \(before ?? ""))")
      }
    }
  }

  private func compareRequests(
    _ old: RequestLimitSettings?, _ new: RequestLimitSettings?, _ found: inout TrustChanges
  ) {
    let before = Dictionary((old?.lines ?? []).map { ($0.zone.name, $0) }, uniquingKeysWith: { first, _ in first })
    let after = Dictionary((new?.lines ?? []).map { ($0.zone.name, $0) }, uniquingKeysWith: { first, _ in first })
    for name in Set(before.keys).union(after.keys).sorted() {
      switch (before[name], after[name]) {
      case (_?, nil): found.opens("limit_req of zone \(name) is gone")
      case (nil, let line?):
        found.closes("limit_req of zone \(name) is new: \(rate(line.rate)) for each \(line.zone.key.text(names.1))")
      case (let one?, let other?):
        let name = "limit_req of zone \(name)"
        if other.rate != one.rate {
          let sentence = "\(name) allows \(rate(other.rate)) (was \(rate(one.rate)))"
          if other.rate > one.rate { found.opens(sentence) } else { found.closes(sentence) }
        }
        if other.burst > one.burst {
          found.opens("\(name) allows a burst of \(other.burst / 1000) (was \(one.burst / 1000))")
        }
        if other.burst < one.burst {
          found.closes("\(name) allows a burst of only \(other.burst / 1000) (was \(one.burst / 1000))")
        }
        if one.zone.key.text(names.0) != other.zone.key.text(names.1) {
          found.other("\(name) counts for each \(other.zone.key.text(names.1)) (was \(one.zone.key.text(names.0)))")
        }
      case (nil, nil): break
      }
    }
    compareResponse("limit_req", old?.response, new?.response, &found)
  }

  private func compareConnections(
    _ old: ConnectionLimitSettings?, _ new: ConnectionLimitSettings?, _ found: inout TrustChanges
  ) {
    let before = Dictionary((old?.lines ?? []).map { ($0.zone.name, $0) }, uniquingKeysWith: { first, _ in first })
    let after = Dictionary((new?.lines ?? []).map { ($0.zone.name, $0) }, uniquingKeysWith: { first, _ in first })
    for name in Set(before.keys).union(after.keys).sorted() {
      found.limit(
        "the number of requests at a time by limit_conn of zone \(name)", before[name]?.count, after[name]?.count)
      if let one = before[name], let other = after[name],
        one.zone.key.text(names.0) != other.zone.key.text(names.1)
      {
        found.other(
          "limit_conn of zone \(name) counts for each \(other.zone.key.text(names.1)) (was \(one.zone.key.text(names.0)))"
        )
      }
    }
    compareResponse("limit_conn", old?.response, new?.response, &found)
  }

  private func compareResponse(
    _ name: String, _ old: LimitResponseSettings?, _ new: LimitResponseSettings?, _ found: inout TrustChanges
  ) {
    guard let old, let new else { return }
    found.flag(
      old.isDryRun, new.isDryRun, opens: "\(name) refuses nobody any more (dry run)", closes: "\(name) refuses again")
  }

  /// `rate`: in thousandths of a request per second.
  private func rate(_ rate: Int) -> String {
    rate % 1000 == 0 ? "\(rate / 1000) requests per second" : "\(rate * 60 / 1000) requests per minute"
  }
}
