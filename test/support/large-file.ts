import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { speak } from '../../src/sandbox/speak.ts'
import { type DemoProcess, startDemoProcess } from './demo-route.ts'
import { assertStopsClean } from './gateway.ts'
import { tempFolder } from './scratch.ts'

export const HERTZ = 600
const MIB = 1024 * 1024
/** Growth that a gateway may show, however large the files are. */
const GROWN_MIB_MAX = 48

/** A file near the limit of its size, and a gateway with little memory that is to take it in. */
export interface LargeFile {
  readonly gateway: DemoProcess
  readonly file: Buffer
  readonly path: string
  /** What is said in it. */
  readonly text: string
}

/**
 * Sends a file of 25 MB through a vendor's client, in flat memory.
 *
 * @param warm  sends a small file, as the large one is sent
 * @param send  sends the large one `times` times
 * @param warms how often it is warmed
 */
export async function sendLargeFile(
  t: Test,
  warm: (large: LargeFile) => Promise<unknown>,
  send: (large: LargeFile) => Promise<unknown>,
  times: number,
  warms = 3,
): Promise<void> {
  const text = Array.from({ length: 340 }, (_, index) => `lark ${index}`).join(' ')
  const file = speak(text, HERTZ, 1)
  t.ok(file.length > 25_000_000 && file.length < 26_214_400, `${file.length} bytes`)
  const path = join(await tempFolder(t), 'larks.wav')
  await writeFile(path, file)
  const gateway = await startDemoProcess(t, { env: { LARKWAY_MEMORY_MIB: '8' } })
  const large = { gateway, file, path, text }
  for (let call = 0; call < warms; call += 1) await warm(large)
  const before = await gateway.peakRssMiB()
  await send(large)
  const grownMiB = (await gateway.peakRssMiB()) - before
  const sentMiB = Math.round((times * file.length) / MIB)
  t.ok(grownMiB < GROWN_MIB_MAX, `grown by ${Math.round(grownMiB)} MiB over ${sentMiB} MiB`)
  await assertStopsClean(t, gateway)
}

/** What a call was rejected with. @throws Error when it is of another class, or there is none */
export async function rejectedWith<Thrown extends Error>(
  kind: { readonly name: string; readonly prototype: Thrown },
  call: Promise<unknown>,
): Promise<Thrown> {
  const thrown = await call.then(
    () => null,
    (error: unknown) => error,
  )
  if (isOf(kind, thrown)) return thrown
  throw new Error(`the client did not throw its ${kind.name} but ${String(thrown)}`)
}

function isOf<Thrown extends Error>(kind: { readonly prototype: Thrown }, thrown: unknown): thrown is Thrown {
  return (
    typeof thrown === 'object' &&
    thrown !== null &&
    Object.prototype.isPrototypeOf.call(kind.prototype, thrown)
  )
}
