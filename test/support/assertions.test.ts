/** Every test asserts something: one that neither asserts nor waits for a condition passes whatever happens. */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const notAssertions = 'test|teardown|comment|testdir|plan|end|before|beforeEach|after|afterEach'
/** An assertion (t.pass says that a call which fails by itself has not), a wait that fails at its limit, a property, a function that is given the test, or a file of tests. */
const asserts = new RegExp(
  String.raw`\bt\.(?!(?:${notAssertions})\b)\w+\(|\b(?:until|assert|confirm|import)\(|\.waitFor\w*\(|\w\(t\b(?!\) =>)|\w\([^()\n]*, t[,)]`,
)

/** The tests of a file that is formatted, from their first line to the line that closes them. */
function testsOf(text: string): string[] {
  const lines = text.split('\n')
  return lines.flatMap((line, index) => {
    const indent = /^( *)(?:(?:await|return|void) )*t\.test\(/.exec(line)?.[1]
    if (indent === undefined) return []
    const closing = new RegExp(`^${indent}}?[)]$`)
    const length = lines.slice(index + 1).findIndex((line) => closing.test(line))
    const isLine = /\)$/.test(line) && !/^\s/.test((lines[index + 1] ?? '').slice(indent.length))
    return [lines.slice(index, isLine ? index + 1 : index + 2 + length).join('\n')]
  })
}

const idle = (text: string) =>
  testsOf(text)
    .filter((title) => !asserts.test(title))
    .map((text) => text.split('\n', 1)[0]!.trim())

t.test('a test that asserts nothing is found', async (t) => {
  t.same(idle("t.test('a', async () => {\n  await bid()\n})\n"), ["t.test('a', async () => {"])
  t.same(idle("t.test('a', async (t) => {\n  t.comment('b')\n})\n"), ["t.test('a', async (t) => {"])
  t.same(idle("t.test('a', async () => {\n  await until(isReady)\n})\n"), [])
  t.same(idle("t.test('a', async (t) => {\n  t.equal(1, 1)\n})\n"), [])
  t.same(idle("t.test('a', (t) => walk(t, {}))\n"), [])
})

t.test('every test asserts something', async (t) => {
  const folder = fileURLToPath(new URL('..', import.meta.url))
  const found = globSync('**/*.test.ts', { cwd: folder }).flatMap((name) => {
    const text = readFileSync(`${folder}/${name}`, 'utf8')
    // A file may be made of calls of a function that defines tests.
    if (!/\bt\.\w+\(|\(t, |\bspawn\(/.test(text)) return [name]
    return idle(text).map((title) => `${name}: ${title}`)
  })
  t.same(found, [])
})
