package sampler

// PerEpoch is a source whose samples differ from epoch to epoch, as those of a mix
// that takes only a part of a large source at a time. Its own Sample is that of
// epoch 0. Length and fingerprint are the same in all epochs.
type PerEpoch interface {
	Source
	// InEpoch is the source of one epoch. Keep it for the epoch.
	InEpoch(number int64) Source
}

// InEpoch is the source of one epoch: the source itself unless it is PerEpoch.
// Whoever turns positions into samples goes through it.
func InEpoch(s Source, number int64) Source {
	if p, ok := s.(PerEpoch); ok {
		return p.InEpoch(number)
	}
	return s
}
