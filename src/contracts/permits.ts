import type { CancelSignal } from './cancellation.ts'

/**
 * A name of which at most `most` permits are taken at the same time, over all nodes: sessions of a key, calls to an
 * account.
 */
export interface PermitLimit {
  readonly name: string
  readonly most: number
}

/** Permits that were taken together. Their holder keeps them until it gives them back or its process ends. */
export interface PermitLease {
  /** Gives them back. Idempotent. */
  release(): void
}

/** The lease, or the first name that has no permit left; nothing was taken then. */
export type PermitsTaken = { readonly lease: PermitLease } | { readonly full: PermitLimit }

/** A caller that waits for a permit, and for how long. */
export interface Waiter {
  /** Workspaces get permits in turn, the calls of one in the order in which they came. */
  readonly workspace: string
  /** 0: not at all. */
  readonly waitMs: number
  readonly signal: CancelSignal
}

/**
 * Permits that all nodes share. A lease is renewed as long as its process lives, so what a killed node held is free
 * again when its lease ends. Never throws or rejects: without Redis, or with one that refuses writes, each node hands
 * out as many as there are, by its own count, and what is held counts everywhere again once Redis is back. A node never
 * holds more than there are.
 */
export interface Permits {
  /** Takes a permit of each name, or none at all. One trip, whatever the number of names. */
  take(limits: readonly PermitLimit[]): Promise<PermitsTaken>
  /** Takes a permit as soon as one is free and it is this one's turn. Null: none was in time, or it was aborted. */
  wait(limit: PermitLimit, waiter: Waiter): Promise<PermitLease | null>
  /** How many of the name this node holds: a count that is never too high for all nodes, and needs no trip. */
  held(name: string): number
  /** How many wait for one on this node. */
  waiting(name: string): number
}

/** The permits of an account: a provider of the configuration, whose entries share them. */
export function callLimit(provider: string, concurrency: number): PermitLimit {
  return { name: `calls:${provider}`, most: concurrency }
}
