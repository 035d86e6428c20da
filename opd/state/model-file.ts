/**
 * A model in one signed file, for a node that has no network: a snapshot of each mode, and the suppliers that operators have
 * reset.
 *
 *   magic  head length  head (JSON)  snapshots  signature
 *   4      4            n            the rest   32
 *
 * The signature is HMAC-SHA256 with a key that both nodes derive from a secret that they share.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import * as z from 'zod'
import { drained } from '../base/slices.ts'
import { modes } from '../shared/arms.ts'

const headSchema = z.strictObject({
  /** Milliseconds since the epoch. */
  at: z.number(),
  /** How many times the models have forgotten a supplier. */
  resets: z.record(z.string(), z.number()),
  models: z
    .array(
      z.strictObject({
        mode: z.enum(modes),
        version: z.int().min(0),
        bytes: z.int().min(1),
      }),
    )
    .min(1),
})
type Head = z.infer<typeof headSchema>

export interface ModelFile extends Omit<Head, 'models'> {
  models: (Omit<Head['models'][number], 'bytes'> & {
    /** A snapshot, as on disk. */
    packed: Uint8Array
  })[]
}

/** Why a file is not used. */
class ModelFileError extends Error {
  override name = 'ModelFileError'
}

const magic = 0x62774d46
const headBytes = 8
const signatureBytes = 32

/** Bytes of one slice of a signature: half a millisecond. */
const sliceBytes = 2 ** 19

/** In slices. */
function* signatureOf(secret: Uint8Array, signed: Uint8Array): Generator<undefined, Buffer> {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'bidweir model file v1', 32))
  const sum = createHmac('sha256', key)
  for (let index = 0; index < signed.length; index += sliceBytes) {
    sum.update(signed.subarray(index, index + sliceBytes))
    yield
  }
  return sum.digest()
}

function* isSignedBy(
  secrets: readonly Uint8Array[],
  signed: Uint8Array,
  signature: Uint8Array,
): Generator<undefined, boolean> {
  for (const secret of secrets)
    if (timingSafeEqual(yield* signatureOf(secret, signed), signature)) return true
  return false
}

/**
 * The bytes of a model file, signed with the secret.
 *
 * @param file `at`: milliseconds since the epoch; the models packed, as snapshots are
 * @param secret at least 32 bytes, which a sealed node has too
 */
export function writeModelFile({ models, ...rest }: ModelFile, secret: Uint8Array): Buffer {
  const head: Head = {
    ...rest,
    models: models.map(({ mode, version, packed }) => ({ mode, version, bytes: packed.length })),
  }
  const text = Buffer.from(JSON.stringify(head))
  const start = Buffer.alloc(headBytes)
  start.writeUInt32BE(magic, 0)
  start.writeUInt32BE(text.length, 4)
  const signed = Buffer.concat([start, text, ...models.map(({ packed }) => packed)])
  return Buffer.concat([signed, drained(signatureOf(secret, signed))])
}

/**
 * Reads a file that was signed with one of the secrets, in slices. The snapshots are views of the bytes.
 *
 * @throws ModelFileError
 */
export function* readingModelFile(
  bytes: Buffer,
  secrets: readonly Uint8Array[],
): Generator<undefined, ModelFile> {
  if (bytes.length < headBytes + signatureBytes || bytes.readUInt32BE(0) !== magic)
    throw new ModelFileError('it is no file of `bidweir model export`')
  const end = bytes.length - signatureBytes
  const [signed, signature] = [bytes.subarray(0, end), bytes.subarray(end)]
  if (!(yield* isSignedBy(secrets, signed, signature)))
    throw new ModelFileError('it is damaged, or signed with another key')
  let from = headBytes + bytes.readUInt32BE(4)
  const { models, ...rest } = headSchema.parse(JSON.parse(bytes.toString('utf8', headBytes, from)))
  return {
    ...rest,
    models: models.map(({ mode, version, bytes: length }) => {
      from += length
      return { mode, version, packed: bytes.subarray(from - length, from) }
    }),
  }
}
