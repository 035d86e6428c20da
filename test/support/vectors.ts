/** The acceptance vectors of the rewriter: an answer with its request, and what is to come out (see `placeholders.ts`). */
import { readFileSync } from 'node:fs'

interface Vector {
  id: string
  title: string
  opdEnabled: boolean
  request: string
  response?: string
  responseBase64?: string
  expected: string
}

const file = new URL('../opd/rewrite/fixtures/rewrite.jsonl', import.meta.url)

export const vectors = readFileSync(file, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Vector)
