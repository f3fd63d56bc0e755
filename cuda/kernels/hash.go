package kernels

// Hash is the SHA-256 of the sources of the image.
const Hash = ""
