import ConfigurationSupport
import Glibc
@testable import Review
import TestSupport
import Testing

@Suite struct `A configuration that no option names` {
  @Test func `is the first that exists, even if it can't be read`() throws {
    try withScene { scene in
      let places = [scene.path("a.conf"), scene.path("b.conf")]
      #expect(ConfigurationLookup.find(among: places) == nil)
      let second = try scene.write("b.conf", text: "")
      #expect(ConfigurationLookup.find(among: places) == second)
      // A link that leads nowhere is a mistake to tell, not a reason to take another file.
      #expect(symlink("nowhere", places[0]) == 0)
      #expect(ConfigurationLookup.find(among: places) == places[0])
    }
    #expect(ConfigurationLookup.places == ["./sallyport.conf", "/etc/sallyport/sallyport.conf"])
  }

  @Test func `that is missing is told with the places, and to who starts with the commands that need none`() {
    let (run, check) = (ConfigurationLookup.fault(starting: true), ConfigurationLookup.fault(starting: false))
    for text in [run, check] {
      #expect(text.hasPrefix("error: there is no ./sallyport.conf and no /etc/sallyport/sallyport.conf\n"))
      #expect(text.contains("--config") && text.hasSuffix("\n"))
    }
    for command in ["`sallyport demo`", "`sallyport proxy`"] {
      #expect(run.contains(command) && !check.contains(command), "\(command)")
    }
  }
}
