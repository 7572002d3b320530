import CLinux
import Glibc

/// Of what this process has open, a child gets standard input, output and errors alone: the sockets of another test would
/// outlive it there.
func closeInherited(_ actions: inout posix_spawn_file_actions_t) { _ = linux_spawn_closes_from(&actions, 3) }

/// The folder that a child begins in.
func beginIn(_ folder: String, _ actions: inout posix_spawn_file_actions_t) {
  _ = linux_spawn_changes_folder(&actions, folder)
}
