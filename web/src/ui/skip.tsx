/** The first link of a page with a menu: to `#content`, which pages with a base cannot link. */
export function SkipLink() {
  return (
    <a class="skip" href="#content" onClick={skip}>
      Skip to the content
    </a>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById('content')?.focus();
}
