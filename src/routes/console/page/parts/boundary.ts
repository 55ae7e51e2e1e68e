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
      <h1>This view failed</h1>
      <p class="empty-text">
        That is a fault of the console, and not of your requests. Load the page anew; if it stays, report what stands
        below.
      </p>
      <${Code} text=${fault.stack ?? fault.message} title="What happened" wrap tall />
      <div class="empty-action"><${Button} icon="refresh" onClick=${() => location.reload()}>Load anew<//></div>
    </div>`
  }
}
