import Features
import Traffic
import Forward
import Glibc
import TestSupport
import Testing

@testable import Loading

@Suite struct `Files that are watched` {
  @Test func `a file in its place looks otherwise, by whatever means it came there`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let path = try scene.write("ca.pem", text: "one")
    let missing = scene.path("missing.pem")
    var states = FileStates(of: [path, missing])
    #expect(states.differences(from: states.now()).isEmpty)

    rename(try scene.write("new.pem", text: "one"), path)
    #expect(states.now().differences(from: states) == [path])
    states = states.now()
    try scene.write("ca.pem", text: "three")
    #expect(states.now().differences(from: states) == [path])
    states = states.now()
    unlink(path)
    #expect(states.now().differences(from: states) == [path])
    states = states.now()
    try scene.write("missing.pem", text: "here")
    #expect(states.now().differences(from: states) == [missing])
  }

  @Test func `a link that leads elsewhere shows, as Kubernetes and certbot turn them`() throws {
    let scene = try Scene()
    defer { scene.end() }
    mkdir(scene.path("one"), 0o700)
    mkdir(scene.path("two"), 0o700)
    try scene.write("one/tls.crt", text: "same")
    try scene.write("two/tls.crt", text: "same")
    symlink("one", scene.path("data"))
    symlink("data/tls.crt", scene.path("tls.crt"))
    let states = FileStates(of: [scene.path("tls.crt")])
    symlink("two", scene.path("data.new"))
    rename(scene.path("data.new"), scene.path("data"))
    #expect(states.now().differences(from: states) == [scene.path("tls.crt")])
  }

  @Test func `a file that comes into a directory shows`() throws {
    let scene = try Scene()
    defer { scene.end() }
    mkdir(scene.path("pins"), 0o700)
    let states = FileStates(of: [scene.path("pins")])
    try scene.write("pins/a.pem", text: "a")
    #expect(states.now().differences(from: states) == [scene.path("pins")])
  }
}
