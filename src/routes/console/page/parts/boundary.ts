import { Component, type ComponentChildren } from 'preact'
import { html } from '../html.ts'
import { Button } from './button.ts'
import { Code } from './code.ts'

interface Props {
  /** A new one clears the fault: the place of the page. */
  readonly place: string
  readonly children?: ComponentChildren
}

/** Keeps a fault in one view from taking the whole page with it. */
export class Boundary extends Component<Props, { readonly fault: Error | null }> {
  override state: { readonly fault: Error | null } = { fault: null }

  static override getDerivedStateFromError(thrown: unknown) {
    return { fault: thrown instanceof Error ? thrown : new Error(String(thrown)) }
  }

  override componentDidUpdate(before: Props) {
    if (before.place !== this.props.place && this.state.fault) this.setState({ fault: null })
  }

  override render() {
    const { fault } = this.state
    if (!fault) return this.props.children
    return html`<div class="error-state" role="alert">
      <h1>Something went wrong</h1>
      <p class="empty-text">
        This is a bug in the console; your requests aren’t affected. Reload the page. If it keeps failing, report the
        details below.
      </p>
      <${Code} text=${fault.stack ?? fault.message} title="Details" wrap tall />
      <div class="empty-action"><${Button} icon="refresh" onClick=${() => location.reload()}>Reload<//></div>
    </div>`
  }
}
