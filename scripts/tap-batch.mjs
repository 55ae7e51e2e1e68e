// Runs tap test files in processes that several of them share, one after another, and judges each by itself: a process
// and the modules that files share are a good part of what most files cost.

import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { judge, startGroup } from './tap-file.mjs'

const PROCESS = fileURLToPath(new URL('tap-batch-process.mjs', import.meta.url))

/** A process is replaced after so many files: each leaves its module behind. */
const FILES_MAX = 60

/**
 * How the processes run the code of tests, which is much, and of which each part runs for a short time. The heap begins
 * at what many files need, MiB: grown from V8's few, it is marked so often on the way that a run takes 8 % more CPU.
 * Only what runs five times as often as by default is optimized: that takes 10 % off.
 */
const FLAGS = ['--initial-old-space-size=1024', '--invocation-count-for-turbofan=15000']

/** Processes that are kept for the next file, as many as files run at a time. */
export class TapProcesses {
  #node
  #options
  #idle = []

  /**
   * @param node    the Node to run them with
   * @param options.timeoutMs after it a file and all that its process started are killed, and the file counts as failed
   */
  constructor(node, { cwd, env, timeoutMs }) {
    this.#node = node
    this.#options = { cwd, env, timeoutMs }
  }

  /**
   * Runs a file in a process that others had before it, or in a new one.
   *
   * @returns what `runTapFile` returns of it; what ends the process is the fault of the file that ran
   */
  async run(file) {
    const kept = this.#idle.pop()
    const one = kept?.hasEnded === false ? kept : new TapProcess(this.#node, this.#options)
    const result = await one.run(file)
    if (one.hasEnded || one.files >= FILES_MAX) one.end()
    else this.#idle.push(one)
    return result
  }

  /** Ends the processes; no file may run. */
  end() {
    for (const one of this.#idle.splice(0)) one.end()
  }
}

class TapProcess {
  hasEnded = false
  files = 0
  #group
  #timeoutMs
  #parts
  #onMark = () => {}
  #cpuTold = 0

  constructor(node, { cwd, env, timeoutMs }) {
    const mark = `larkway-test-${randomUUID()}`
    this.#timeoutMs = timeoutMs
    this.#group = startGroup(node, [...FLAGS, PROCESS, mark], { cwd, env, timeoutMs, asked: true })
    this.#parts = [new Parts(mark), new Parts(mark)]
    for (const [at, stream] of [this.#group.child.stdout, this.#group.child.stderr].entries()) {
      stream.setEncoding('utf8').on('data', (chunk) => {
        this.#parts[at].add(chunk)
        if (this.#parts.every((one) => one.ended.length > 0)) this.#onMark()
      })
    }
    this.#group.ended.then(() => {
      this.hasEnded = true
    })
  }

  async run(file) {
    this.files += 1
    this.#group.prolong()
    const marked = new Promise((resolve) => {
      this.#onMark = resolve
    })
    this.#group.child.stdio[3].write(`${file}\n`)
    const end = await Promise.race([marked, this.#group.ended])
    if (end !== undefined && !this.#parts.every((one) => one.ended.length > 0)) return this.#judgeEnd(end)
    this.#group.rest() // until it gets another file
    const [out, err] = this.#parts.map((one) => one.ended.shift())
    const [status, cpuSeconds] = out.said.split(' ').map(Number)
    const output = out.text + err.text
    this.#cpuTold += cpuSeconds
    return { ...judge(output, status), output, cpuSeconds }
  }

  end() {
    this.#group.child.stdio[3].end()
  }

  #judgeEnd({ status, timedOut, cpuSeconds }) {
    const output = this.#parts.map((one) => one.rest).join('')
    const judged = judge(output, status, timedOut ? this.#timeoutMs : undefined)
    const own = cpuSeconds === undefined ? undefined : cpuSeconds - this.#cpuTold
    return { ...judged, output, cpuSeconds: own }
  }
}

/** The text of a stream, cut at the lines that begin with a mark. */
class Parts {
  /** @type {{ text: string, said: string }[]} the text before each mark, and what the line of the mark says */
  ended = []
  rest = ''
  #mark

  constructor(mark) {
    this.#mark = `\n${mark}`
  }

  add(chunk) {
    this.rest += chunk
    for (;;) {
      const at = this.rest.indexOf(this.#mark)
      const lineEnd = at < 0 ? -1 : this.rest.indexOf('\n', at + 1)
      if (lineEnd < 0) return
      this.ended.push({
        text: this.rest.slice(0, at + 1),
        said: this.rest.slice(at + this.#mark.length, lineEnd).trim(),
      })
      this.rest = this.rest.slice(lineEnd + 1)
    }
  }
}
