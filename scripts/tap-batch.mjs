// Runs several tap test files in one process and judges each by itself: a process and the modules that files share are
// a good part of what most files cost.

import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { judge, runTapFile, startGroup } from './tap-file.mjs'

const PROCESS = fileURLToPath(new URL('tap-batch-process.mjs', import.meta.url))

/**
 * @param files   in the order in which they are run; one alone has a process without any of this
 * @param onEnded told of each file as it ends: its path, what `runTapFile` returns of one, and how long it took, ms.
 *                What ends the process, or lasts longer than `timeoutMs`, is the fault of the file that ran; those
 *                behind it are run in a process of their own.
 */
export async function runTapBatch(node, files, { cwd, env, timeoutMs, onEnded }) {
  let left = files
  while (left.length > 1) left = left.slice(await runProcess(node, left, { cwd, env, timeoutMs, onEnded }))
  for (const file of left) {
    const startedAt = performance.now()
    onEnded(file, await runTapFile(node, file, { cwd, env, timeoutMs }), performance.now() - startedAt)
  }
}

/** @returns how many of the files have ended */
async function runProcess(node, files, { cwd, env, timeoutMs, onEnded }) {
  const mark = `larkway-test-${randomUUID()}`
  const group = startGroup(node, [PROCESS, mark, ...files], { cwd, env, timeoutMs })
  const parts = [new Parts(mark), new Parts(mark)]
  let ended = 0
  let startedAt = performance.now()
  let cpuTold = 0
  const end = (result) => {
    onEnded(files[ended], result, performance.now() - startedAt)
    startedAt = performance.now()
    ended += 1
    group.prolong()
  }
  const read = (at) => (chunk) => {
    parts[at].add(chunk)
    while (parts.every((one) => one.ended.length > ended)) {
      const [out, err] = parts.map((one) => one.ended[ended])
      const [status, cpuSeconds] = out.said.split(' ').map(Number)
      const output = out.text + err.text
      cpuTold += cpuSeconds
      end({ ...judge(output, status), output, cpuSeconds })
    }
  }
  group.child.stdout.setEncoding('utf8').on('data', read(0))
  group.child.stderr.setEncoding('utf8').on('data', read(1))
  const { status, timedOut, cpuSeconds } = await group.ended
  if (ended < files.length) {
    const output = parts.map((one) => one.rest).join('')
    const judged = judge(output, status, timedOut ? timeoutMs : undefined)
    end({ ...judged, output, cpuSeconds: cpuSeconds === undefined ? undefined : cpuSeconds - cpuTold })
  }
  return ended
}

/** What a stream holds, cut at the lines that begin with a mark. */
class Parts {
  /** @type {{ text: string, said: string }[]} what stood before each mark, and what was said behind it */
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
