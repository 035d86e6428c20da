/**
 * Checks that names, comments, texts and documents contain none of the words in the table below "Words" of
 * `docs/develop.md`, not as a part of a name either; `npm run check` runs this.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const document = 'docs/develop.md'
/** The table itself, and what programs wrote. */
const exempt =
  /^(docs\/develop\.md|test\/words\.ts|package-lock\.json|LICENSE|charts\/bidweir\/ci\/golden\/|.*\.(png|ico|bin|gz|wasm|svg|schema\.json)$|.*\/RESULTS.*\.md$)/

function readWords(): string[] {
  const section = readFileSync(document, 'utf8').split('\n## Words\n')[1]?.split('\n## ')[0] ?? ''
  return [...section.matchAll(/^\| ([a-z, ]+) \| .+ \|$/gm)]
    .flatMap(([, words]) => words!.split(', '))
    .filter((word) => word !== 'instead of')
}

const capital = (word: string) => word[0]!.toUpperCase() + word.slice(1)

/** `told` as a word, in `toldReasons`, `wasTold` and `was_told`. "There is none" is no fault of "is none". */
function patternOf(word: string): RegExp {
  const [text, head] = [word, capital(word)].map((index) => index.replaceAll(' ', '[\\s*]+'))
  const start = word.endsWith(' none')
    ? '(?<![tT]here[\\s/*#]{1,12})(?<![A-Za-z])'
    : '(?<![A-Za-z])'
  return new RegExp(`(?:${start}(?:${text}|${head})|(?<=[a-z])${head})(?![a-z])`, 'g')
}

const words = readWords()
const faults: string[] = words.length === 0 ? [`${document}: no table below "## Words"`] : []
const patterns = words.map((word) => ({ word, pattern: patternOf(word) }))
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  encoding: 'utf8',
})
for (const file of files.split('\n').filter((name) => name !== '' && !exempt.test(name))) {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') continue // deleted, and not committed yet
    throw error
  }
  for (const { word, pattern } of patterns)
    for (const { index } of text.matchAll(pattern))
      faults.push(
        `${file}:${text.slice(0, index).split('\n').length}: "${word}"; ${document} has the word to use`,
      )
}

for (const fault of faults) process.stderr.write(`${fault}\n`)
process.exitCode = faults.length > 0 ? 1 : 0
