/**
 * Settings that a workspace changes itself, through the workspace API. Methods answer within 2 s and throw GatewayError
 * DEPENDENCY_UNAVAILABLE when the state does not answer.
 */
export interface WorkspaceSettings {
  /** Hosts that the workspace may fetch audio from, as `audioDomain` writes them; empty when never set. */
  audioUrlDomains(workspace: string): Promise<readonly string[]>
  putAudioUrlDomains(workspace: string, domains: readonly string[]): Promise<void>
  webhook(workspace: string): Promise<StoredWebhook | null>
  /** Replaces the webhook in one step; the secret of the one before stays valid beside the new one for `keepMs`. */
  putWebhook(workspace: string, webhook: NewWebhook, keepMs: number): Promise<void>
  /**
   * Puts other texts of the same secrets in the place of those that were read.
   *
   * @returns false, with nothing changed, when the webhook has another secret by now
   */
  resealWebhook(workspace: string, from: StoredWebhook, to: SealedSecrets): Promise<boolean>
  /** @returns whether there was one */
  removeWebhook(workspace: string): Promise<boolean>
  /** True: the console may show audio and transcripts of the workspace. Default: false. */
  contentShown(workspace: string): Promise<boolean>
  putContentShown(workspace: string, shown: boolean): Promise<void>
  /** Leaves everything as if it had never been set. */
  forget(workspace: string): Promise<void>
}

export interface NewWebhook {
  readonly url: string
  /** Encrypted. */
  readonly secret: string
  readonly createdAtMs: number
}

/** The encrypted secrets of a webhook; `previous` is null where there is none before it. */
export interface SealedSecrets {
  readonly secret: string
  readonly previous: string | null
}

export interface StoredWebhook extends NewWebhook {
  /** The secret before the last rotation, while it is still signed with; null: none. */
  readonly previous: { readonly secret: string; readonly untilMs: number } | null
}
