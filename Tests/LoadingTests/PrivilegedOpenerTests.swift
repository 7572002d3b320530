import ConfigurationSupport
import Foundation
import Glibc
import Language
@testable import Loading
import TestSupport
import Testing

/// What the opener of root's files takes from a process that may have been taken over.
@Suite struct `Requests for root's files` {
  @Test func `a request and an answer are read as they were written`() throws {
    let request = OpenerRequest(.append, "/var/log/a.log")
    let read = try #require(OpenerRequest.read(request.bytes(number: 0xFFFF_FFFE)[...]))
    #expect(read.number == 0xFFFF_FFFE && read.request == request)
    for refusal in [nil, OpenerRefusal(EACCES, "why"), OpenerRefusal(ENOENT)] {
      let answer = try #require(OpenerAnswer.read(OpenerAnswer(refusal: refusal).bytes(number: 7)[...]))
      #expect(answer.number == 7 && answer.answer.refusal == refusal)
    }
    let long = OpenerAnswer(refusal: OpenerRefusal(EACCES, String(repeating: "x", count: 9999)))
    #expect(long.bytes(number: 1).count == OpenerAnswer.room)
  }

  @Test func `nothing else is a request`() {
    let bytes = OpenerRequest(.read, "/a").bytes(number: 1)
    for count in 0..<5 { #expect(OpenerRequest.read(bytes[..<count]) == nil) }
    var other = bytes
    other[4] = 0
    #expect(OpenerRequest.read(other[...]) == nil)
    other[4] = 7
    #expect(OpenerRequest.read(other[...]) == nil)
    #expect(OpenerRequest.read((bytes + [0])[...]) == nil, "NUL")
    #expect(OpenerRequest.read((bytes + [0xFF])[...]) == nil, "no UTF-8")
    let long = OpenerRequest(.read, String(repeating: "a", count: OpenerRequest.longestText + 1))
    #expect(OpenerRequest.read(long.bytes(number: 1)[...]) == nil)
    var generator = SystemRandomNumberGenerator()
    for _ in 0..<2000 {
      let noise = (0..<Int.random(in: 0...64, using: &generator)).map { _ in UInt8.random(in: 0 ... .max) }
      if let (number, request) = OpenerRequest.read(noise[...]) { #expect(request.bytes(number: number) == noise) }
    }
  }
}

@Suite(.enabled(if: geteuid() == 0, "only root gives files away"))
struct `Paths that root opens for another user` {
  private let user = ServingUser(user: 65_534, groups: [65_534], name: "nobody")

  private func opened(_ path: String, _ trust: GuardedPath.Trust, for use: GuardedPath.Use = .read) -> String {
    do throws(OpenerRefusal) {
      let descriptor = try GuardedPath.open(path, for: use, trusting: trust)
      defer { close(descriptor) }
      return "opened"
    } catch {
      return error.words
    }
  }

  private func scene(_ body: (Scene) throws -> Void) throws {
    try withScene { scene in
      for folder in ["keys", "own", "other", "shared"] { try scene.makeFolder(folder) }
      for file in ["keys/a", "own/a", "other/a", "shared/a"] { try scene.write(file, text: "x") }
      chmod(scene.path("keys"), 0o700)
      chown(scene.path("own"), 65_534, 65_534)
      chown(scene.path("other"), 1, 1)
      chmod(scene.path("shared"), 0o1777)
      try body(scene)
    }
  }

  @Test func `a path is taken where nobody has a say whom root doesn't trust`() throws {
    try scene { scene in
      for trust in [GuardedPath.Trust.rootAlone, .anybodyBut(user)] {
        #expect(opened(scene.path("keys/a"), trust) == "opened")
        #expect(opened(scene.path("keys/../keys/./a"), trust) == "opened")
        #expect(opened(scene.path("shared/a"), trust) == "opened", "root's own in a sticky folder")
        #expect(opened(scene.path("own/a"), trust).contains("can be changed by others than root"))
        #expect(opened(scene.path("own/../keys/a"), trust).contains("can be changed by others than root"))
        #expect(opened(scene.path("keys/none"), trust) == "No such file or directory")
        #expect(opened("/dev/null", trust).contains("is not a regular file"))
      }
      #expect(opened(scene.path("other/a"), .rootAlone).contains("its owner is not root"))
      #expect(opened(scene.path("other/a"), .anybodyBut(user)) == "opened")
      chmod(scene.path("keys/a"), 0o664)
      #expect(opened(scene.path("keys/a"), .rootAlone).contains("its group or others can write it"))
      #expect(opened(scene.path("keys/a"), .anybodyBut(user)) == "opened")
      // As /var/log of Ubuntu: a group that the user is not in, and one that it is in.
      chmod(scene.path("other"), 0o775)
      #expect(opened(scene.path("other/a"), .anybodyBut(user)) == "opened")
      chown(scene.path("other"), 0, 65_534)
      #expect(opened(scene.path("other/a"), .anybodyBut(user)).contains("nobody can write it"))
      chmod(scene.path("other"), 0o777)
      #expect(opened(scene.path("other/a"), .anybodyBut(user)).contains("nobody can write it"))
    }
  }

  @Test func `a link leads on only if who made it could have opened the file`() throws {
    try scene { scene in
      symlink("../keys/a", scene.path("keys/link"))
      symlink(scene.path("keys/link"), scene.path("second"))
      #expect(opened(scene.path("second"), .rootAlone) == "opened")
      #expect(opened(scene.path("second"), .anybodyBut(user)) == "opened")
      // Of the user that serves, in a sticky folder; of a third user, to root's file and to its own.
      symlink(scene.path("keys/a"), scene.path("shared/of-user"))
      lchown(scene.path("shared/of-user"), 65_534, 65_534)
      #expect(opened(scene.path("shared/of-user"), .anybodyBut(user)).contains("its owner is nobody"))
      for (name, target) in [("to-root", "../keys/a"), ("to-own", "mine"), ("log", "../keys/new")] {
        symlink(target, scene.path("other/\(name)"))
        lchown(scene.path("other/\(name)"), 1, 1)
      }
      try scene.write("other/mine", text: "x")
      chown(scene.path("other/mine"), 1, 1)
      let words = opened(scene.path("other/to-root"), .anybodyBut(user))
      #expect(words.contains("belongs to another user than the file"), "\(words)")
      #expect(opened(scene.path("other/to-root"), .anybodyBut(user), for: .append).contains("another user"))
      #expect(opened(scene.path("other/to-own"), .anybodyBut(user)) == "opened")
      symlink("loop", scene.path("loop"))
      #expect(opened(scene.path("loop"), .anybodyBut(user)) == "Too many levels of symbolic links")
      // A second name of root's file, which the user could give it where the kernel doesn't protect hard links.
      link(scene.path("keys/a"), scene.path("shared/b"))
      #expect(opened(scene.path("shared/b"), .anybodyBut(user)).contains("it is in a shared folder"))
    }
  }

  @Test func `a log is made, and nothing else is`() throws {
    try scene { scene in
      #expect(opened(scene.path("keys/new.log"), .anybodyBut(user), for: .append) == "opened")
      #expect(access(scene.path("keys/new.log"), F_OK) == 0)
      #expect(opened(scene.path("own/new.log"), .anybodyBut(user), for: .append).contains("its owner is nobody"))
      #expect(access(scene.path("own/new.log"), F_OK) != 0)
      #expect(opened(scene.path("keys"), .anybodyBut(user), for: .append) != "opened")
    }
  }

  @Test func `what is opened is what the configuration names, and a request doesn't add to it`() throws {
    try scene { scene in
      let text = """
        error_log keys/error.log; events {} http { access_log keys/access.log;
          upstream a { zone a 64k; state states; } include keys/*.conf;
          server { listen 127.0.0.1:8080; auth_basic x; auth_basic_user_file keys/a; return 200; } }
        """
      let path = try scene.write("s.conf", text: text)
      // Of the user that serves, and so not read: a state names no file.
      try scene.write("states", text: "server 127.0.0.1:9;")
      chown(scene.path("states"), 65_534, 65_534)
      try scene.write("keys/more.conf", text: "")
      try scene.write("keys/b", text: "x")
      var service = OpenerService(.file(path), for: user)
      #expect(service.fault == nil)
      func isGiven(_ verb: OpenerRequest.Verb, _ name: String) -> Bool {
        service.trial(of: OpenerRequest(verb, verb == .listen ? name : scene.path(name))) == nil
      }
      #expect(isGiven(.read, "keys/a") && isGiven(.append, "keys/error.log") && isGiven(.append, "keys/access.log"))
      #expect(isGiven(.read, "s.conf") && isGiven(.read, "keys/more.conf") && isGiven(.expand, "keys/*.conf"))
      #expect(!isGiven(.read, "keys/b") && !isGiven(.read, "keys") && !isGiven(.read, "keys/access.log"))
      #expect(!isGiven(.append, "keys/a") && !isGiven(.expand, "keys/*") && !isGiven(.read, "states"))
      #expect(!isGiven(.listen, "127.0.0.1:8081"))
      // What root writes then counts when it is read; what others can change, and what is broken, keeps the former names.
      try scene.write("s.conf", text: text.replacing("file keys/a", with: "file keys/b"))
      #expect(!isGiven(.read, "keys/b"))
      #expect(service.trial(of: OpenerRequest(.configuration)) == nil)
      #expect(isGiven(.read, "keys/b") && !isGiven(.read, "keys/a"))
      try scene.write("s.conf", text: text + "nonsense;")
      #expect(service.trial(of: OpenerRequest(.configuration)) != nil)
      #expect(isGiven(.read, "keys/b"))
      try scene.write("s.conf", text: text)
      chown(path, 65_534, 65_534)
      let refusal = service.trial(of: OpenerRequest(.configuration))
      #expect(refusal?.words.contains("its owner is not root") == true, "\(String(describing: refusal))")
      #expect(!isGiven(.read, "keys/a") && isGiven(.read, "keys/b"))
    }
  }
}
