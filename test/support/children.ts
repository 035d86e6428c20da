/** Child processes that do not outlive their test, even if a time limit ends it before its teardown. */
import type { ChildProcess } from 'node:child_process'

const children = new Set<ChildProcess>()
const end = () => {
  for (const child of children) child.kill('SIGKILL')
}
// before the temporary files are removed
process.prependOnceListener('exit', end)
// The runner's time limit.
process.once('SIGALRM', () => {
  end()
  process.kill(process.pid, 'SIGALRM')
})

export function endWithTest<Child extends ChildProcess>(child: Child): Child {
  children.add(child)
  child.once('exit', () => children.delete(child))
  return child
}
