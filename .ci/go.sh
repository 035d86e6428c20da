# Sourced. What helm and Kubernetes are built with where Go is too old (before 1.21) to fetch by itself what a module
# asks for. Usage: . .ci/go.sh; new_go CACHE
new_go() {
  local toolchain=go1.26.8 cache module dir
  command -v go >/dev/null 2>&1 || {
    echo "$0: go is needed" >&2
    return 1
  }
  cache=$(cd "$1" && pwd)
  [ "$(printf '%s\n' go1.21 "$(go env GOVERSION)" | sort -V | head -n 1)" != go1.21 ] || return 0
  module="golang.org/toolchain@v0.0.1-$toolchain.$(go env GOOS)-$(go env GOARCH)"
  dir=$(GOMODCACHE="$cache/go" go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
  # An old Go unpacks modules without their executable bits.
  chmod +x "$dir"/bin/* "$dir"/pkg/tool/*/*
  export GOROOT="$dir" PATH="$dir/bin:$PATH"
}
