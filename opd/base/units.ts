import * as z from 'zod'

/**
 * `host:port`, the host a name, an IPv4 address or an IPv6 address in brackets.
 *
 * @param example for the error of another text
 */
export const hostPort = (example: string) =>
  z
    .string()
    .regex(/^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):\d{1,5}$/, `host:port, such as ${example}`)
    .refine((text) => Number(text.slice(text.lastIndexOf(':') + 1)) <= 65535, 'a port up to 65535')

const durationUnits: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}
const sizeUnits: Readonly<Record<string, number>> = {
  '': 1,
  B: 1,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
  KB: 1000,
  MB: 1000 ** 2,
  GB: 1000 ** 3,
}

function scaled(text: string, units: Readonly<Record<string, number>>): number | undefined {
  const match = /^(\d+(?:\.\d+)?) ?([A-Za-z]*)$/.exec(text)
  const unit = match === null ? undefined : units[match[2]!]
  return unit === undefined ? undefined : Number(match![1]) * unit
}

/** The longest timer of Node, 2^31 - 1 ms: a longer one fires at once. */
const maxDuration = 2 ** 31 - 1

/**
 * `120ms`, `5s`, `10m`, `48h`, `2d` in YAML; a number of milliseconds after parsing.
 *
 * @param fallback as in YAML, such as `5s`
 */
export function duration(fallback: string) {
  const wanted = 'a duration such as 120ms, 5s, 10m, 48h, 2d'
  return z
    .string(wanted)
    .regex(/^\d+(\.\d+)? ?(ms|s|m|h|d)$/, wanted)
    .default(fallback)
    .transform((text) => scaled(text, durationUnits) ?? Number.NaN)
    .refine((ms) => ms <= maxDuration, 'a duration of at most 24 days')
}

/**
 * Milliseconds of a duration; NaN: not a duration.
 *
 * @param text a number and `ms`, `s`, `m`, `h` or `d`
 */
export const milliseconds = (text: string): number => scaled(text, durationUnits) ?? Number.NaN

const sizeText = String.raw`\d+(\.\d+)? ?(B|KiB|MiB|GiB|KB|MB|GB)?`
const bytesOf = (value: number | string) =>
  Math.floor(typeof value === 'number' ? value : (scaled(value, sizeUnits) ?? Number.NaN))
const largestSize = 1024 ** 3
const tooLarge = 'a size of at most 1GiB'

/**
 * `64KiB`, `1MiB`, or a whole number of bytes in YAML; a number of bytes after parsing.
 *
 * @param fallback as in YAML, such as `64KiB`
 */
export function size(fallback: string) {
  return z
    .union([
      z.int().min(0),
      z.string().regex(new RegExp(`^${sizeText}$`), 'a size such as 64KiB, 1MiB'),
    ])
    .default(fallback)
    .transform(bytesOf)
    .refine((bytes) => bytes <= largestSize, tooLarge)
}

/**
 * The same, or `auto`, the default.
 *
 * @returns a schema; `auto` stays a text
 */
export function autoSize() {
  return z
    .union([
      z.int().min(0),
      z.string().regex(new RegExp(`^(auto|${sizeText})$`), 'auto, or a size such as 256MiB'),
    ])
    .default('auto')
    .transform((value) => (value === 'auto' ? value : bytesOf(value)))
    .refine((bytes) => bytes === 'auto' || bytes <= largestSize, tooLarge)
}
