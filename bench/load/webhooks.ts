import type { HttpResponse } from 'uWebSockets.js'
import { answerTasks } from './task.ts'
import { loadUws } from './uws.ts'

// Where webhooks go: answers each at once, and counts the jobs that were told of.

export type WebhooksTask =
  /** Forgets what it was told of. */
  | { readonly do: 'reset' }
  /** Waits until it was told of so many jobs. */
  | { readonly do: 'await'; readonly jobs: number; readonly withinMs: number }

export interface WebhooksReport {
  readonly port: number
  /** Different ones. */
  readonly jobs: number
  readonly deliveries: number
}

/** A listener of uWebSockets.js gets a port of its own for 0. */
const ANY_PORT = 0

let deliveries = 0
let jobs = new Set<string>()
let onDelivery = () => {}

const { App, us_socket_local_port: portOf } = loadUws()
App()
  .post('/*', receive)
  .listen('127.0.0.1', ANY_PORT, (socket) => {
    if (!socket) throw new Error('no port to listen on')
    const port = portOf(socket)
    answerTasks(async (task: WebhooksTask): Promise<WebhooksReport> => {
      if (task.do === 'await') await told(task.jobs, task.withinMs)
      const report = { port, jobs: jobs.size, deliveries }
      if (task.do === 'reset') {
        jobs = new Set()
        deliveries = 0
      }
      return report
    })
  })

function receive(response: HttpResponse): void {
  const chunks: Buffer[] = []
  let aborted = false
  response.onAborted(() => {
    aborted = true
  })
  response.onData((chunk, isLast) => {
    chunks.push(Buffer.from(chunk.slice(0))) // the chunk is detached when this returns
    if (!isLast || aborted) return
    const { type, job_id: id } = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, string>
    if (type === 'transcription.job.succeeded' && id !== undefined) jobs.add(id)
    deliveries += 1
    response.cork(() => response.end())
    onDelivery()
  })
}

function told(count: number, withinMs: number): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      onDelivery = () => {}
      resolve()
    }
    const timer = setTimeout(end, withinMs)
    onDelivery = () => {
      if (jobs.size >= count) end()
    }
    onDelivery()
  })
}
