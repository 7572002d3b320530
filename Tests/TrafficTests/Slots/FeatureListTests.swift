@testable import Features
@testable import Forward
import Testing
@testable import Traffic

/// The list of features, and what is made of it.
struct FeatureListTests {
  /// Tells how many features it was made of.
  private final class Part: ListPart {
    let count: Int
    init(_ all: [any DirectiveFeature.Type]) { count = all.count }
  }

  private let list = FeatureList([Main.self, LogSubrequest.self, ServerNames.self])

  @Test func `a feature that is only read runs nothing`() {
    #expect(list.all.map { "\($0)" } == ["LogSubrequest"])
    #expect(list.directives.all.count == 3)
    #expect(list.directives.ofHTTPLocation.map { "\($0)" } == ["LogSubrequest"])
  }

  @Test func `what a module makes of the list is made once`() {
    let part = list.directives[Part.self]
    #expect(part.count == 3)
    #expect(list.directives[Part.self] === part)
  }

  @Test func `names are those of the list's features`() {
    #expect(!list.directives.table.entries(named: "log_subrequest").isEmpty)
    #expect(list.directives.table.entries(named: "limit_req").isEmpty)
    guard case .known(.feature(let variable)) = list.directives.variables.look(up: "Server_Name") else {
      Issue.record("$server_name is unknown")
      return
    }
    #expect(variable == ServerNames.variable)
    #expect(!list.directives.variables.all(of: .http).contains("limit_req_status"))
  }

  /// A cast finds it too, and searches all conformances of the program for each answer: no start can wait for that.
  @Test func `each feature says itself what a cast would find`() {
    for feature in Features.each {
      let kinds = ForwardKinds.of(feature)
      #expect((feature.asFeature != nil) == (feature is any Feature.Type), "\(feature)")
      #expect((kinds != nil) == (feature is any ForwardFeature.Type), "\(feature)")
      #expect((kinds?.pass != nil) == (feature is any PassFeature.Type), "\(feature)")
      #expect((kinds?.upstream != nil) == (feature is any UpstreamFeature.Type), "\(feature)")
      #expect((kinds?.balance != nil) == (feature is any BalanceFeature.Type), "\(feature)")
      #expect((feature.asContent != nil) == (feature is any ContentDirectives.Type), "\(feature)")
    }
  }
}
