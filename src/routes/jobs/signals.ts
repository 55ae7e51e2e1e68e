import { EventEmitter } from 'node:events'

/**
 * Tells those who wait for jobs in this process what happens to them, so that they need not wait for their next look at
 * the state: what this process does, and what others do as far as the state tells. No more than a hint.
 */
export interface JobSignals {
  /** Jobs were queued: here, or in a part of the state that a hint named. */
  queued(part?: number): void
  /** @returns takes the listener off again */
  onQueued(listener: (part?: number) => void): () => void
  /** A job was taken up, was asked to be cancelled, or has ended. */
  changed(id: string): void
  /** @returns takes the listener off again */
  onChanged(id: string, listener: () => void): () => void
  /** A job has ended: there may be an event to deliver. */
  ended(): void
  /** @returns takes the listener off again */
  onEnded(listener: () => void): () => void
}

export function createJobSignals(): JobSignals {
  const queue = new EventEmitter().setMaxListeners(0)
  const jobs = new EventEmitter().setMaxListeners(0)
  const listen = (emitter: EventEmitter, event: string, listener: (part?: number) => void) => {
    emitter.on(event, listener)
    return () => void emitter.off(event, listener)
  }
  return {
    queued: (part) => void queue.emit('queued', part),
    onQueued: (listener) => listen(queue, 'queued', listener),
    // Prefixed, since an event of the name `error` would throw.
    changed: (id) => void jobs.emit(`job ${id}`),
    onChanged: (id, listener) => listen(jobs, `job ${id}`, listener),
    ended: () => void queue.emit('ended'),
    onEnded: (listener) => listen(queue, 'ended', listener),
  }
}
