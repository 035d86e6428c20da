/**
 * The thread that watches the event loop of the process. It reads the number of ticks, which costs the event loop one
 * addition. Only when that number has not changed for 100 ms does it ask V8 what runs, by the inspector, which interrupts the
 * JavaScript that does not end. It also writes CPU profiles and heap snapshots, so that their text is made here.
 */
import { closeSync, openSync, writeSync } from 'node:fs'
import { Session } from 'node:inspector'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parentPort, workerData } from 'node:worker_threads'
import { LineRing } from '../log/line-ring.ts'
import type { WatchRequest, WatchResponse, WatchStart } from './watch-messages.ts'

/** Milliseconds between two looks, and looks without a tick after which the loop is late, or held. */
const lookEvery = 50
const lateAfter = 2
const heldAfter = 40
/** Milliseconds between two questions: an answer costs the event loop some milliseconds. */
const askEvery = 15_000
const maxFrames = 12
/** Milliseconds that a line waits for the thread that writes the log. */
const lineWait = 1000
/** Microseconds between two samples of a profile. */
const sampleEvery = 1000

const { ticks: memory, lines, fields } = workerData as WatchStart
const ticks = new Int32Array(memory)
const ring = new LineRing(lines)
const send = (message: WatchResponse) => parentPort!.postMessage(message)

/** A file is being written: meanwhile the loop is late for that reason. */
let writing = false

/** Sessions of the inspector. A process does not end while there is one. */
const sessions = new Set<WatchedThread>()

class WatchedThread {
  private readonly session = new Session()

  constructor() {
    this.session.connectToMainThread()
    sessions.add(this)
  }

  post(method: string, params?: object): Promise<object> {
    return new Promise((resolve, reject) => {
      this.session.post(method, params, (error, result) => {
        if (error === null) resolve(result as object)
        else reject(new Error(error.message))
      })
    })
  }

  on<Params>(event: string, use: (params: Params) => void): void {
    this.session.on(event, ({ params }: { params: Params }) => use(params))
  }

  close(): void {
    sessions.delete(this)
    this.session.disconnect()
  }
}

interface Frame {
  functionName: string
  location: { scriptId: string; lineNumber: number }
}

const root = fileURLToPath(new URL('../..', import.meta.url))
/** The path from the folder of the program. */
const fileOf = (url: string) => (url.startsWith('file:') ? relative(root, fileURLToPath(url)) : url)

/** What the watched thread runs now. */
async function currentStack(): Promise<string[]> {
  const thread = new WatchedThread()
  const files = new Map<string, string>()
  thread.on<{ scriptId: string; url: string }>('Debugger.scriptParsed', ({ scriptId, url }) => {
    files.set(scriptId, url)
  })
  const paused = new Promise<Frame[]>((resolve) => {
    thread.on<{ callFrames: Frame[] }>('Debugger.paused', ({ callFrames }) => resolve(callFrames))
  })
  const asked = Promise.all([thread.post('Debugger.enable'), thread.post('Debugger.pause')])
  // The thread may pause before it has responded; the end of the session then rejects these requests, which nothing needs.
  const frames = await Promise.race([paused, asked.then(() => paused)])
  // The thread goes on when its last session ends.
  thread.close()
  return frames.slice(0, maxFrames).map(({ functionName, location }) => {
    const file = fileOf(files.get(location.scriptId) ?? '')
    return `${functionName || '(anonymous)'} (${file}:${location.lineNumber + 1})`
  })
}

function logHeld(ms: number, stack: string[] | null): void {
  const time = new Date().toISOString()
  const line = { level: 50, time, ...fields, ms, stack, msg: 'the event loop is held' }
  ring.writeAtOnce(2, `${JSON.stringify(line)}\n`, lineWait)
}

class Watch {
  private tick = 0
  private looks = 0
  private stack: string[] | null = null
  private asked = Number.NEGATIVE_INFINITY

  look(): void {
    const now = Atomics.load(ticks, 0)
    if (now !== this.tick) {
      this.tick = now
      this.looks = 0
      return
    }
    this.looks++
    if (this.looks === lateAfter && !writing) this.ask(askEvery)
    // Half a second before the line: it says what runs, whenever that was asked last.
    if (this.looks === heldAfter - 10 && !writing && this.stack === null) this.ask(0)
    if (this.looks === heldAfter && !writing) logHeld(heldAfter * lookEvery, this.stack)
  }

  /** `every`: milliseconds since the last question. */
  private ask(every: number): void {
    const { tick } = this
    this.stack = null
    if (performance.now() - this.asked < every) return
    this.asked = performance.now()
    void currentStack().then((stack) => {
      // The answer of a thread that was in native code comes after it.
      const seen = Atomics.load(ticks, 0) === tick ? stack : null
      this.stack = seen
      send({ kind: 'seen', tick, stack: seen })
    })
  }
}

async function writeProfile(thread: WatchedThread, file: number, ms: number): Promise<void> {
  await thread.post('Profiler.enable')
  await thread.post('Profiler.setSamplingInterval', { interval: sampleEvery })
  await thread.post('Profiler.start')
  await new Promise((resolve) => setTimeout(resolve, ms))
  const { profile } = (await thread.post('Profiler.stop')) as { profile: object }
  writeSync(file, JSON.stringify(profile))
}

async function writeHeap(thread: WatchedThread, file: number): Promise<void> {
  thread.on<{ chunk: string }>('HeapProfiler.addHeapSnapshotChunk', ({ chunk }) => {
    writeSync(file, chunk)
  })
  await thread.post('HeapProfiler.takeHeapSnapshot')
}

async function write(request: WatchRequest): Promise<void> {
  writing = true
  try {
    // Others may not read it: a heap has keys.
    const file = openSync(request.path, 'wx', 0o600)
    const thread = new WatchedThread()
    try {
      if (request.kind === 'profile') await writeProfile(thread, file, request.ms)
      else await writeHeap(thread, file)
    } finally {
      thread.close()
      closeSync(file)
    }
    send({ kind: 'written', error: null })
  } catch (error) {
    send({ kind: 'written', error: (error as Error).message })
  } finally {
    writing = false
  }
}

const watch = new Watch()
const timer = setInterval(() => watch.look(), lookEvery)
parentPort!.on('message', (request: WatchRequest | 'end') => {
  if (request !== 'end') return void write(request)
  clearInterval(timer)
  for (const thread of sessions) thread.close()
})
